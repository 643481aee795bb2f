"""The `cpu` backend: compiled kernels.

They want contiguous arrays, int32 ids and a bias in the type of the sums;
half precision other than bfloat16 is computed in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import native
from .graph import GraphCache

__all__ = ['backward', 'forward', 'supports']

_MAX_CHANNELS = 1024  # kMaxChannels of csrc/cpu/kernels.h
_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def supports(q: Tensor) -> bool:
    """Whether there is a CPU kernel for queries of this type and size."""
    return q.dtype in _TYPES and q.size(2) <= _MAX_CHANNELS


def forward(
    q: Tensor, k: Tensor, bias: Tensor | None, graph: GraphCache
) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluates Eq. (1) and (2) of the reference."""
    _check_reach(graph)
    op = native.operators.attention_forward
    given = q.dtype
    q, k = _stored(q), _stored(k)
    lse, u, v = op(q, k, _summed(bias, q), *_arrays(graph))
    return lse, u.to(given), v.to(given)


def backward(
    grads: tuple[Tensor, Tensor, Tensor],
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    lse: Tensor,
    u: Tensor,
    graph: GraphCache,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Evaluates Eq. (3) to (5) of the reference."""
    op = native.operators.attention_backward
    given = q.dtype
    grad_lse, *grad_outputs = grads
    grad_u, grad_v, q, k, u = (_stored(t) for t in (*grad_outputs, q, k, u))
    grad_q, grad_k, grad_bias = op(
        grad_lse.to(lse.dtype).contiguous(),
        grad_u,
        grad_v,
        q,
        k,
        _summed(bias, q),
        lse.contiguous(),
        u,
        *_arrays(graph),
    )
    if bias is None:
        return grad_q.to(given), grad_k.to(given), None
    return grad_q.to(given), grad_k.to(given), grad_bias.to(bias.dtype)


def _check_reach(graph: GraphCache) -> None:
    """Kernels trust the arrays: one by hand could point anywhere."""
    for ptr, ids, size in (
        (graph.rowptr, graph.col, graph.num_src),
        (graph.colptr, graph.row, graph.num_dst),
    ):
        if ids.numel():
            low, high = (int(v) for v in torch.aminmax(ids))
            if low < 0 or high >= size or not bool((ptr.diff() >= 0).all()):
                raise IndexError(
                    f"'GraphCache' names node {low if low < 0 else high} of "
                    f'{size}, or its pointers fall; build it with '
                    f'from_edge_index() or from_csr()'
                )


def _stored(tensor: Tensor) -> Tensor:
    half = tensor.dtype == torch.float16
    return (tensor.float() if half else tensor).contiguous()


def _summed(bias: Tensor | None, q: Tensor) -> Tensor | None:
    if bias is None:
        return None
    return bias.to(torch.promote_types(q.dtype, torch.float32)).contiguous()


def _arrays(graph: GraphCache) -> list[Tensor]:
    return [array.contiguous() for array in graph.arrays()]
