"""The reference on a cached graph, with the signature of a backend.

It is the `reference` backend, the backward formula inside a backward pass
with ``create_graph=True``, and, on small graphs, the fastest way there is.
Half types are computed in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import reference
from .graph import GraphCache

__all__ = ['backward', 'forward']


def forward(
    q: Tensor, k: Tensor, bias: Tensor | None, graph: GraphCache
) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluates Eq. (1) and (2) of the reference."""
    wide = torch.promote_types(q.dtype, torch.float32)
    lse, u, v = reference.energy_attention(
        q.to(wide), k.to(wide), *_edges(graph), _ordered(bias, graph, wide)
    )
    return lse, u.to(q.dtype), v.to(k.dtype)


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
    wide = torch.promote_types(q.dtype, torch.float32)
    grad_lse, grad_u, grad_v = (grad.to(wide) for grad in grads)
    grad_q, grad_k, grad_logits = reference.energy_attention_backward(
        (grad_lse, grad_u, grad_v),
        q.to(wide),
        k.to(wide),
        *_edges(graph),
        _ordered(bias, graph, wide),
        lse,
        u.to(wide),
    )
    grad_bias = None
    if bias is not None:
        order = graph.edge_row.long()
        position = torch.empty_like(order)
        position[order] = torch.arange(order.size(0), device=order.device)
        grad_bias = grad_logits[position].to(bias.dtype)
    return grad_q.to(q.dtype), grad_k.to(k.dtype), grad_bias


def _edges(graph: GraphCache) -> tuple[Tensor, Tensor]:
    return graph.col.long(), graph.targets()


def _ordered(
    bias: Tensor | None, graph: GraphCache, dtype: torch.dtype
) -> Tensor | None:
    return None if bias is None else bias[graph.edge_row.long()].to(dtype)
