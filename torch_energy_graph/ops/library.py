"""Registration of the operators: schema, fake, implementation, autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import compiled, cuda, edge_wise, sddmm
from .backend import active_backend
from .graph import GraphCache

__all__ = ['energy_attention']

# The graph travels as the list of the arrays of a `GraphCache`.

# Up to so many values [E, H, Y], a few gathers beat sparse products per head.
_SMALL = 2**16


def _evaluator(q: Tensor, graph: GraphCache) -> Any:
    kernels = {'cpu': compiled, 'cuda': cuda}
    found = kernels.get(active_backend(q.device.type))
    if found is not None and found.supports(q):
        return found
    small = graph.num_edges * q.size(1) * q.size(2) <= _SMALL
    return edge_wise if small else sddmm


def _no_autocast(q: Tensor) -> torch.autocast:
    # inside, half types are computed in float32, which CSR kernels require
    return torch.autocast(q.device.type, enabled=False)


@torch.library.custom_op(
    'torch_energy_graph::energy_attention', mutates_args=()
)
def energy_attention(
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    graph: Sequence[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-sum-exp and both gradients; beta is folded into q."""
    cache = GraphCache(*graph)
    with _no_autocast(q):
        return _evaluator(q, cache).forward(q, k, bias, cache)


@energy_attention.register_fake
def _energy_attention_fake(
    q: Tensor, k: Tensor, bias: Tensor | None, graph: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(q.dtype, torch.float32)
    lse = q.new_empty(q.shape[:2], dtype=dtype)  # [N_dst, H]
    return lse, torch.empty_like(q), torch.empty_like(k)


@torch.library.custom_op(
    'torch_energy_graph::energy_attention_backward', mutates_args=()
)
def energy_attention_backward(
    grad_lse: Tensor,
    grad_u: Tensor,
    grad_v: Tensor,
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    lse: Tensor,
    u: Tensor,
    graph: Sequence[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and the bias (empty without one)."""
    cache = GraphCache(*graph)
    grads = (grad_lse, grad_u, grad_v)
    with _no_autocast(q):
        grad_q, grad_k, grad_bias = _evaluator(q, cache).backward(
            grads, q, k, bias, lse, u, cache
        )
    if grad_bias is None:
        grad_bias = q.new_empty(0)
    return grad_q, grad_k, grad_bias


@energy_attention_backward.register_fake
def _energy_attention_backward_fake(
    grad_lse: Tensor,
    grad_u: Tensor,
    grad_v: Tensor,
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    lse: Tensor,
    u: Tensor,
    graph: Sequence[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    grad_bias = q.new_empty(0) if bias is None else torch.empty_like(bias)
    return torch.empty_like(q), torch.empty_like(k), grad_bias


def _setup_context(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
) -> None:
    q, k, bias, graph = inputs
    lse, u, _ = output
    ctx.has_bias = bias is not None
    saved = (q, k, lse, u, *graph)
    ctx.save_for_backward(*saved, *([bias] if ctx.has_bias else []))


def _backward(
    ctx: Any, grad_lse: Tensor, grad_u: Tensor, grad_v: Tensor
) -> tuple[Any, ...]:
    q, k, lse, u, *graph = ctx.saved_tensors
    bias = graph.pop() if ctx.has_bias else None
    # an empty row has L = -inf: nothing may flow back from it
    grads = (grad_lse.masked_fill(lse.isinf(), 0.0), grad_u, grad_v)
    if torch.is_grad_enabled():  # create_graph=True
        cache = GraphCache(*graph)
        out = edge_wise.backward(grads, q, k, bias, lse, u, cache)
    else:
        out = energy_attention_backward(*grads, q, k, bias, lse, u, graph)
    grad_q, grad_k, grad_bias = out
    grad_bias = grad_bias if ctx.has_bias else None
    return grad_q, grad_k, grad_bias, [None] * len(graph)


energy_attention.register_autograd(_backward, setup_context=_setup_context)
