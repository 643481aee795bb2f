r"""Weighted sums over neighbours, differentiable any number of times.

.. math::
    y_i = \sum_{e = (j, i)} w_e x_j                                   (1)

is bilinear, and so are its gradients: that of x is (1) over the transposed
edges, that of w is :math:`s_e = \dot y_i \cdot x_j` (2), whose gradients are
(1) again. The two operators call each other. The graph holds both orders of
its edges, so nothing is sorted in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .blocks import accumulator, row_blocks
from .graph import GraphCache
from .grouping import group_ids

__all__ = ['spmm']


def spmm(x: Tensor, graph: GraphCache, weight: Tensor | None = None) -> Tensor:
    r"""Sum over the in-edges of every target, Eq. (1).

    Args:
        x (Tensor): Sources :math:`[N_\mathrm{src}, C]`.
        graph (GraphCache): The edges.
        weight (Tensor, optional): :math:`w`, :math:`[E]`, in the order of
            the edges that the cache was built from. (default: all 1)

    Returns:
        Tensor: :math:`[N_\mathrm{dst}, C]`; half types are computed in
        float32.

    Raises:
        ValueError: If shapes do not fit together.
    """
    if x.dim() != 2 or x.size(0) != graph.num_src:
        raise ValueError(
            f"'spmm' expects x of shape [{graph.num_src}, C], one row per "
            f'source of the graph (got {list(x.shape)})'
        )
    if weight is not None and weight.shape != (graph.num_edges,):
        raise ValueError(
            f"'spmm' expects one weight per edge, [{graph.num_edges}] "
            f'(got {list(weight.shape)})'
        )
    return _spmm(x, weight, _both_orders(graph))


def _both_orders(graph: GraphCache) -> list[Tensor]:
    by_target = [graph.rowptr, graph.col, graph.edge_row]
    return [*by_target, graph.colptr, graph.row, graph.edge_col]


@torch.library.custom_op('torch_energy_graph::spmm', mutates_args=())
def _spmm(x: Tensor, weight: Tensor | None, graph: Sequence[Tensor]) -> Tensor:
    """Eq. (1) over the first of two orders: pointers, other ends, ids."""
    ptr, minor, edge = graph[:3]
    dtype = accumulator(x)
    if weight is None:
        values = x.new_ones(minor.size(0), dtype=dtype)
    else:
        values = weight.to(dtype).index_select(0, edge)
    matrix = torch.sparse_csr_tensor(
        ptr.to(minor.dtype),  # sparse kernels want one type of index
        minor,
        values,
        (ptr.size(0) - 1, x.size(0)),
        check_invariants=False,
    )
    nodes = x.to(dtype)
    if x.device.type == 'cpu':  # faster than the vendor library's product
        return torch.sparse.mm(matrix, nodes, 'sum').to(x.dtype)
    return (matrix @ nodes).to(x.dtype)


@_spmm.register_fake
def _spmm_fake(
    x: Tensor, weight: Tensor | None, graph: Sequence[Tensor]
) -> Tensor:
    return x.new_empty(graph[0].size(0) - 1, x.size(1))


@torch.library.custom_op('torch_energy_graph::sddmm', mutates_args=())
def _sddmm(major: Tensor, minor: Tensor, graph: Sequence[Tensor]) -> Tensor:
    """Dot products of both ends of every edge, Eq. (2), in caller order."""
    ptr, ends, edge = graph[:3]
    dtype = accumulator(major)
    rows = group_ids(ptr, ends.size(0))
    out = major.new_empty(ends.size(0), dtype=dtype)
    for part in row_blocks(ends.size(0), major.size(1)):
        left = major.index_select(0, rows[part]).to(dtype)
        right = minor.index_select(0, ends[part]).to(dtype)
        out[edge[part]] = left.mul_(right).sum(-1)
    return out.to(major.dtype)


@_sddmm.register_fake
def _sddmm_fake(
    major: Tensor, minor: Tensor, graph: Sequence[Tensor]
) -> Tensor:
    return major.new_empty(graph[1].size(0))


def _transposed(graph: Sequence[Tensor]) -> list[Tensor]:
    return [*graph[3:], *graph[:3]]


def _spmm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, graph = inputs
    ctx.has_weight = weight is not None
    weights = [x, weight] if ctx.has_weight else []
    ctx.save_for_backward(*graph, *weights)


def _spmm_vjp(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    graph = list(ctx.saved_tensors[:6])
    x, weight = ctx.saved_tensors[6:] if ctx.has_weight else (None, None)
    grad_x = grad_weight = None
    if ctx.needs_input_grad[0]:
        grad_x = _spmm(grad, weight, _transposed(graph))
    if ctx.has_weight and ctx.needs_input_grad[1]:
        grad_weight = _sddmm(grad, x, graph)
    return grad_x, grad_weight, [None] * 6


def _sddmm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    major, minor, graph = inputs
    ctx.save_for_backward(major, minor, *graph)


def _sddmm_vjp(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    major, minor, *graph = ctx.saved_tensors
    grad_major = _spmm(minor, grad, graph)
    grad_minor = _spmm(major, grad, _transposed(graph))
    return grad_major, grad_minor, [None] * 6


_spmm.register_autograd(_spmm_vjp, setup_context=_spmm_setup)
_sddmm.register_autograd(_sddmm_vjp, setup_context=_sddmm_setup)
