r"""Sums over the pairs of a graph for DIFFormer-a, block by block.

.. math::
    o_i = \sum_j \varphi(r_{ij})\, y_j, \qquad
    r_{ij} = \lVert x_i - x_j \rVert^2                               (1)

over the nodes j of the graph of i; :math:`\varphi` is the penalty or the
diffusivity. As r is symmetric, so are the derivatives of a scalar with
:math:`\dot o_i = g_i`,

.. math::
    \dot y_i = \sum_j \varphi(r_{ij})\, g_j, \qquad
    \dot x_i = 2 \sum_j \varphi'(r_{ij})
               (g_i \cdot y_j + g_j \cdot y_i) (x_i - x_j)           (2)

which the backward pass sums over the same blocks, computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_energy_graph.ops.blocks import row_blocks

from .diffusivity import pair_diffusivity, pair_penalty, squared_distance

__all__ = ['blocked_penalties', 'blocked_weighted']

_Pairwise = Callable[[Tensor], Tensor]


def blocked_penalties(x: Tensor, batch: Tensor | None) -> Tensor:
    r"""Sum of :math:`\delta(r_{ij})` over j, :math:`[N]`.

    Args:
        x (Tensor): State :math:`[N, C]`.
        batch (LongTensor, optional): Graph of every node, in any order.
    """
    one = x.new_ones(x.size(0), 1)
    return _sums(x, one, batch, _penalty, _slope).squeeze(-1)


def blocked_weighted(x: Tensor, batch: Tensor | None) -> Tensor:
    r"""Sums of :math:`f(r_{ij})\, x_j` and of f, :math:`[N, C + 1]`.

    The arguments are those of :func:`blocked_penalties`.
    """
    nodes = torch.cat([x, x.new_ones(x.size(0), 1)], dim=-1)
    return _sums(x, nodes, batch, _slope, _curvature)


def _penalty(distance: Tensor) -> Tensor:
    return pair_penalty(distance, 'sigmoid')


def _slope(distance: Tensor) -> Tensor:
    return pair_diffusivity(distance, 'sigmoid')


def _curvature(distance: Tensor) -> Tensor:
    slope = _slope(distance)
    return slope * (slope - 1) / 2


def _sums(
    x: Tensor,
    y: Tensor,
    batch: Tensor | None,
    value: _Pairwise,
    derivative: _Pairwise,
) -> Tensor:
    """Eq. (1) with nodes of a graph side by side."""
    if batch is None:
        return _PairSums.apply(x, y, None, value, derivative)
    order = batch.argsort(stable=True)
    out = _PairSums.apply(x[order], y[order], batch[order], value, derivative)
    return out[order.argsort()]


class _PairSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        batch: Tensor | None,
        value: _Pairwise,
        derivative: _Pairwise,
    ) -> Tensor:
        ctx.save_for_backward(x, y, batch)
        ctx.pairwise = value, derivative
        out = torch.empty_like(y)
        for rows, cols, apart in _blocks(x.size(0), batch):
            distance = squared_distance(x[rows], x[cols])
            out[rows] = _masked(value(distance), apart) @ y[cols]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, batch = ctx.saved_tensors
        value, derivative = ctx.pairwise
        grad_x, grad_y = torch.empty_like(x), torch.empty_like(y)
        for rows, cols, apart in _blocks(x.size(0), batch):
            distance = squared_distance(x[rows], x[cols])
            pull = grad[rows] @ y[cols].mT + y[rows] @ grad[cols].mT
            pull = _masked(pull * derivative(distance), apart)
            total = pull.sum(-1, keepdim=True)
            grad_x[rows] = 2 * (total * x[rows] - pull @ x[cols])
            grad_y[rows] = _masked(value(distance), apart) @ grad[cols]
        return grad_x, grad_y, None, None, None


def _masked(value: Tensor, apart: Tensor | None) -> Tensor:
    return value if apart is None else value.masked_fill(apart, 0.0)


def _blocks(
    num_nodes: int, batch: Tensor | None
) -> Iterator[tuple[slice, slice, Tensor | None]]:
    """Rows, columns with all their graphs, and which pairs to leave out."""
    if batch is None:
        for rows in row_blocks(num_nodes, num_nodes):
            yield rows, slice(0, num_nodes), None
        return
    count = batch.bincount()
    end = count.cumsum(0)
    first, last = (end - count)[batch].cpu(), end[batch].cpu()
    # rows of small graphs span many of them
    width = max(512, int(count.max())) if num_nodes else 0
    for rows in row_blocks(num_nodes, width):
        cols = slice(int(first[rows.start]), int(last[rows.stop - 1]))
        yield rows, cols, batch[rows, None] != batch[cols]
