"""Softmax within groups of edges."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from torch_geometric.utils import scatter

from . import cuda, native, reference
from .backend import active_backend
from .grouping import group, group_ids

__all__ = ['scatter_softmax']

_CPU_TYPES = (torch.float32, torch.float64, torch.bfloat16)


def scatter_softmax(
    src: Tensor,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    num_nodes: int | None = None,
) -> Tensor:
    r"""Softmax over the entries of every group.

    .. math::
        p_e = \frac{\exp(s_e)}{\sum_{e' \in \mathcal{G}(e)} \exp(s_{e'})}

    Unlike :func:`torch_geometric.utils.softmax`, nothing is added to the
    denominator, and a group whose entries are all :math:`-\infty` gives zeros
    instead of NaN. Differentiable any number of times.

    Args:
        src (Tensor): Scores, :math:`[E, ...]`.
        index (LongTensor, optional): Group of every entry, :math:`[E]`.
        ptr (LongTensor, optional): Boundaries of sorted groups,
            :math:`[N + 1]`; an alternative to :obj:`index`.
        num_nodes (int, optional): Number of groups, with :obj:`index`.
            (default: largest index + 1)

    Returns:
        Tensor: :math:`[E, ...]`; half types are computed in float32.

    Raises:
        ValueError: If not exactly one of :obj:`index` and :obj:`ptr` is
            given, or if its size does not fit.
        IndexError: If an index lies outside of the groups.
    """
    if (index is None) == (ptr is None):
        raise ValueError(
            "'scatter_softmax' expects exactly one of 'index' and 'ptr'"
        )
    perm = None
    if index is not None:
        index, num_nodes = _checked_index(src, index, num_nodes)
        if active_backend(src.device.type) == 'cuda':  # it works by rows
            ptr, perm = group(index, num_nodes)
            index = None
    else:
        num_nodes = _checked_ptr(ptr, src.size(0))
    columns = src.flatten(1) if src.dim() > 1 else src.unsqueeze(1)  # [E, F]
    out = _scatter_softmax(columns, index, ptr, perm, num_nodes)
    return out.view_as(src)


def _checked_index(
    src: Tensor, index: Tensor, num_nodes: int | None
) -> tuple[Tensor, int]:
    if index.dim() != 1 or index.size(0) != src.size(0):
        raise ValueError(
            f"'scatter_softmax' expects one index per row of src, "
            f'[{src.size(0)}] (got {list(index.shape)})'
        )
    if num_nodes is None:
        num_nodes = int(index.max()) + 1 if index.numel() else 0
    if not torch.compiler.is_compiling() and index.numel():
        low, high = (int(v) for v in torch.aminmax(index))
        if low < 0 or high >= num_nodes:
            raise IndexError(
                f"'scatter_softmax' got index {low if low < 0 else high}, but "
                f'there are only {num_nodes} groups; give a larger num_nodes'
            )
    return index.long(), num_nodes


def _checked_ptr(ptr: Tensor | None, size: int) -> int:
    if ptr is None or ptr.dim() != 1 or ptr.size(0) == 0:
        raise ValueError(
            "'scatter_softmax' expects ptr of shape [N + 1], N >= 0"
        )
    if not torch.compiler.is_compiling():
        rises = bool((ptr.diff() >= 0).all()) and int(ptr[0]) == 0
        if not rises or int(ptr[-1]) != size:
            raise ValueError(
                f"'scatter_softmax': ptr must rise from 0 to the {size} rows "
                f'of src (it goes from {int(ptr[0])} to {int(ptr[-1])})'
            )
    return ptr.size(0) - 1


def _kernels(src: Tensor) -> Any:
    """What has `softmax_forward` and `softmax_backward`, or None."""
    active = active_backend(src.device.type)
    if active == 'cpu' and src.dtype in _CPU_TYPES:
        return native.operators
    if active == 'cuda' and cuda.supports_softmax(src):
        return cuda
    return None


@torch.library.custom_op(
    'torch_energy_graph::scatter_softmax', mutates_args=()
)
def _scatter_softmax(
    src: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    perm: Tensor | None,
    num_groups: int,
) -> Tensor:
    """Softmax of every column, groups by index or by pointers into perm."""
    kernels = _kernels(src)
    if kernels is None:
        dtype = torch.promote_types(src.dtype, torch.float32)
        ids = _ids(src, index, ptr, perm)
        out = reference.scatter_softmax(src.to(dtype), ids, num_groups)
        return out.to(src.dtype)
    src = src.contiguous()
    if index is not None and kernels is native.operators:
        return kernels.softmax_by_index(src, index.contiguous(), num_groups)
    rows = (ptr, perm) if index is None else group(index, num_groups)
    return kernels.softmax_forward(src, *rows)


@_scatter_softmax.register_fake
def _scatter_softmax_fake(
    src: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    perm: Tensor | None,
    num_groups: int,
) -> Tensor:
    return src.new_empty(src.shape)


@torch.library.custom_op(
    'torch_energy_graph::scatter_softmax_backward', mutates_args=()
)
def _scatter_softmax_backward(
    grad: Tensor,
    out: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    perm: Tensor | None,
    num_groups: int,
) -> Tensor:
    """Gradient of the scores."""
    kernels = _kernels(out)
    if kernels is None:
        return _gradient(grad, out, index, ptr, perm, num_groups)
    grad, out = grad.contiguous(), out.contiguous()
    if index is not None and kernels is native.operators:
        return kernels.softmax_by_index_backward(
            grad, out, index.contiguous(), num_groups
        )
    rows = (ptr, perm) if index is None else group(index, num_groups)
    return kernels.softmax_backward(grad, out, *rows)


@_scatter_softmax_backward.register_fake
def _scatter_softmax_backward_fake(
    grad: Tensor,
    out: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    perm: Tensor | None,
    num_groups: int,
) -> Tensor:
    return out.new_empty(out.shape)


def _gradient(
    grad: Tensor,
    out: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    perm: Tensor | None,
    num_groups: int,
) -> Tensor:
    """Evaluates p (g - sum p g), differentiable."""
    dtype = torch.promote_types(out.dtype, torch.float32)
    ids = _ids(out, index, ptr, perm)
    p, grad = out.to(dtype), grad.to(dtype)
    mean = scatter(p * grad, ids, dim_size=num_groups, reduce='sum')
    return (p * (grad - mean[ids])).to(out.dtype)


def _ids(
    src: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    perm: Tensor | None,
) -> Tensor:
    """Group of every entry, [E]."""
    if index is not None:
        return index
    return group_ids(cast(Tensor, ptr), src.size(0), perm)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, *groups, ctx.num_groups = inputs
    ctx.given = [array is not None for array in groups]
    ctx.save_for_backward(output, *(a for a in groups if a is not None))


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    out, *saved = ctx.saved_tensors
    groups = [saved.pop(0) if given else None for given in ctx.given]
    args = grad, out, *groups, ctx.num_groups
    function: Any = _scatter_softmax_backward
    if torch.is_grad_enabled():  # create_graph=True
        function = _gradient
    return function(*args), None, None, None, None


_scatter_softmax.register_autograd(_backward, setup_context=_setup_context)
