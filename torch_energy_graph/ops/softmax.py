"""Softmax within groups of edges."""

from __future__ import annotations

import torch
from torch import Tensor

from . import reference

__all__ = ['scatter_softmax']


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
    """
    if (index is None) == (ptr is None):
        raise ValueError(
            "'scatter_softmax' expects exactly one of 'index' and 'ptr'"
        )
    if index is None:
        index, num_nodes = _from_ptr(ptr, src.size(0))
    elif index.dim() != 1 or index.size(0) != src.size(0):
        raise ValueError(
            f"'scatter_softmax' expects one index per row of src, "
            f'[{src.size(0)}] (got {list(index.shape)})'
        )
    if num_nodes is None:
        num_nodes = int(index.max()) + 1 if index.numel() else 0
    dtype = torch.promote_types(src.dtype, torch.float32)
    out = reference.scatter_softmax(src.to(dtype), index.long(), num_nodes)
    return out.to(src.dtype)


def _from_ptr(ptr: Tensor | None, size: int) -> tuple[Tensor, int]:
    if ptr is None or ptr.dim() != 1 or ptr.size(0) == 0:
        raise ValueError(
            "'scatter_softmax' expects ptr of shape [N + 1], N >= 0"
        )
    if not torch.compiler.is_compiling() and int(ptr[-1]) != size:
        raise ValueError(
            f"'scatter_softmax': ptr must end at the {size} rows of src "
            f'(got {int(ptr[-1])})'
        )
    groups = torch.arange(ptr.size(0) - 1, device=ptr.device)
    return groups.repeat_interleave(ptr.diff(), output_size=size), groups.size(
        0
    )
