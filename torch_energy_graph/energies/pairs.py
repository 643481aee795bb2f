r"""Sums over all ordered pairs of nodes of a graph, without N x N memory.

For every node i, with :math:`r_{ij} = \lVert x_i - x_j \rVert^2`, a penalty
:math:`\delta` and its slope f (:mod:`.diffusivity`), over all j of its graph,

.. math::
    \sum_j \delta(r_{ij}), \qquad d_i = \sum_j f(r_{ij}), \qquad
    \sum_j f(r_{ij}) (x_j - x_i)                                     (1)

The penalty of DIFFormer-s is a polynomial in r, so moments of the graph
suffice. With :math:`a_i = \lVert x_i \rVert^2`, :math:`s = \sum_j x_j`,
:math:`t = \sum_j a_j x_j` and :math:`G = \sum_j x_j x_j^\top`,

.. math::
    \sum_j r_{ij} &= n a_i + \sum_j a_j - 2\, x_i \cdot s

    \sum_j r_{ij}^2 &= n a_i^2 + \sum_j a_j^2 + 4\, x_i^\top G x_i
        + 2 a_i \sum_j a_j - 4 a_i\, x_i \cdot s - 4\, x_i \cdot t

    \sum_j f(r_{ij})\, x_j &= (2 - a_i / 2)\, s - t / 2 + G x_i      (2)

cost :math:`O(N C^2)`. Distances do not change when a graph is shifted, and
shifted to its mean, (2) does not subtract large numbers. DIFFormer-a is
summed over blocks of pairs (:mod:`.pair_blocks`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_geometric.utils import scatter

from torch_energy_graph.ops.ragged import batch_of, cut

from .pair_blocks import blocked_penalties, blocked_weighted

__all__ = ['pair_penalties', 'pair_pulls']

# from nodes [L, M, C] of as many (parts of) graphs, their numbers of nodes
# [L, 1, 1] and a function that completes the sums of a part to those of its
# graph, to sums of every node [L, M, K]
_Whole = Callable[[Tensor], Tensor]
_Moments = Callable[[Tensor, Tensor, _Whole], Tensor]


def pair_penalties(
    x: Tensor,
    kernel: str,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""First sum of Eq. (1), :math:`[N]`."""
    batch, num_graphs = batch_of(x.size(0), batch, None, batch_size)
    x = _centred(x, batch, num_graphs)
    if kernel == 'sigmoid':
        return blocked_penalties(x, batch)
    return _per_graph(_penalties, x, batch, num_graphs).squeeze(-1)


def pair_pulls(
    x: Tensor,
    kernel: str,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Degree :math:`[N]` and pull :math:`[N, C]`: the others of Eq. (1)."""
    batch, num_graphs = batch_of(x.size(0), batch, None, batch_size)
    x = _centred(x, batch, num_graphs)
    if kernel == 'sigmoid':
        out = blocked_weighted(x, batch)  # [N, C + 1]
    else:
        out = _per_graph(_weighted, x, batch, num_graphs)
    degree = out[:, -1:]
    return degree.squeeze(-1), out[:, :-1] - degree * x


def _penalties(x: Tensor, count: Tensor, whole: _Whole) -> Tensor:
    size = x.square().sum(-1, keepdim=True)  # a: [L, M, 1]
    sizes = whole(size.sum(1, keepdim=True))  # [L, 1, 1]
    squares = whole(size.square().sum(1, keepdim=True))
    x_s = x @ whole(x.sum(1, keepdim=True)).mT  # [L, M, 1]
    x_t = x @ whole((size * x).sum(1, keepdim=True)).mT
    x_g_x = ((x @ whole(x.mT @ x)) * x).sum(-1, keepdim=True)
    first = count * size + sizes - 2 * x_s
    second = count * size.square() + squares + 4 * x_g_x
    second = second + 2 * size * sizes - 4 * size * x_s - 4 * x_t
    return 2 * first - second / 4


def _weighted(x: Tensor, count: Tensor, whole: _Whole) -> Tensor:
    """Sums of f(r) x and of f(r): `[L, M, C + 1]`."""
    size = x.square().sum(-1, keepdim=True)  # a: [L, M, 1]
    total = whole(x.sum(1, keepdim=True))  # s: [L, 1, C]
    skew = whole((size * x).sum(1, keepdim=True))  # t
    sizes = whole(size.sum(1, keepdim=True))  # [L, 1, 1]
    slope = 2 - size / 2
    weighted = slope * total - skew / 2 + x @ whole(x.mT @ x)
    degree = count * slope - sizes / 2 + x @ total.mT
    # a node is its own neighbour, and f(0) = 2
    return torch.cat([weighted, degree.clamp(min=2)], dim=-1)


def _per_graph(
    moments: _Moments, x: Tensor, batch: Tensor | None, num_graphs: int
) -> Tensor:
    """Evaluates `moments` for every node: `[N, K]`."""
    if batch is None:
        count = x.new_full((1, 1, 1), x.size(0))
        return moments(x.unsqueeze(0), count, lambda part: part).squeeze(0)
    tiles = cut(batch, num_graphs)

    def whole(part: Tensor) -> Tensor:
        return tiles.spread(tiles.total(part))

    real = tiles.pack(x.new_ones(x.size(0), 1))
    count = whole(real.sum(1, keepdim=True))  # [L, 1, 1]
    return tiles.unpack(moments(tiles.pack(x), count, whole))


def _centred(x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
    """The state minus the mean of its graph."""
    # the sums do not depend on the shift, so it needs no derivative
    state = x.detach()
    if batch is None:
        return x - state.sum(0) / max(x.size(0), 1)
    mean = scatter(state, batch, dim_size=num_graphs, reduce='mean')
    return x - mean.index_select(0, batch)
