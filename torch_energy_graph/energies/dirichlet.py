r"""Dirichlet energy: a node is at rest at the mean of its neighbours.

With weights :math:`w_e \ge 0`, one self-loop at every node and degrees
:math:`d_i = \frac12 (\sum_{e \text{ into } i} w_e + \sum_{e \text{ out of }
i} w_e)`,

.. math::
    E(x) = \frac{1}{4} \sum_{e = (j, i)} w_e
           \Big\lVert \frac{x_i}{\sqrt{d_i}}
           - \frac{x_j}{\sqrt{d_j}} \Big\rVert^2
         = \frac{1}{2} \operatorname{tr} x^\top (I - \hat{A}) x      (1)

    \frac{\partial E}{\partial x} = x - \hat{A} x, \qquad
    \hat{A}_{ij} = \frac{w_{ji} + w_{ij}}{2 \sqrt{d_i d_j}}          (2)

An undirected edge stands in the list twice, so (1) counts it with the usual
1/2. A descent step of size 1 is :math:`\hat{A} x`: the propagation of a GCN.
It equals PyG's :func:`gcn_norm` exactly where every edge stands with its
reverse and their weights are equal (Kipf and Welling 2017). Of a directed
graph the energy sees the symmetric part; the propagation over in-edges alone
has an antisymmetric part as well, and is the gradient of nothing.

The eigenvalues of :math:`I - \hat{A}` are in [0, 2], so no step
:math:`0 \le \tau \le 1` raises E. Parallel edges count as often as they
stand. Nodes of degree 0 (without self-loops) have energy and gradient 0,
where a GCN puts them to zero.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_geometric.utils import add_remaining_self_loops

from .edges import both_ends, checked_edges, net_flow
from .reduce import reduce_energy

__all__ = ['dirichlet_energy', 'dirichlet_energy_grad']


def dirichlet_energy(
    x: Tensor,
    edge_index: Any,
    edge_weight: Tensor | None = None,
    add_self_loops: bool = True,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    reduction: str = 'graph',
) -> Tensor:
    r"""Energy of a state, Eq. (1); an edge counts half at each end.

    Args:
        x (Tensor): State :math:`[N, C]`.
        edge_index (Adj or GraphCache): Edges, source to target.
        edge_weight (Tensor, optional): :math:`w \ge 0`, :math:`[E]`.
        add_self_loops (bool, optional): Give every node that has none a
            self-loop of weight 1, as :class:`GCNConv` does. They change the
            degrees, not the sum. (default: :obj:`True`)
        batch (LongTensor, optional): Graph of every node, :math:`[N]`.
        batch_size (int, optional): Number of graphs.
        reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.
            (default: :obj:`"graph"`)

    Returns:
        Tensor: A scalar, :math:`[B]` or :math:`[N]`, float32 at least.

    Raises:
        ValueError: If a shape is wrong or a weight negative.
        IndexError: If an edge names a node that does not exist.
    """
    edges, weight, h, _ = _scaled(x, edge_index, edge_weight, add_self_loops)
    src, dst = edges
    cost = weight / 4 * (h[dst] - h[src]).square().sum(-1)  # [E]
    energy = both_ends(cost, edges, x.size(0))
    return reduce_energy(energy, batch, batch_size, reduction)


def dirichlet_energy_grad(
    x: Tensor,
    edge_index: Any,
    edge_weight: Tensor | None = None,
    add_self_loops: bool = True,
) -> Tensor:
    r"""Gradient of the summed energy, Eq. (2), :math:`[N, C]`.

    The arguments are those of :func:`dirichlet_energy`.
    """
    edges, weight, h, scale = _scaled(
        x, edge_index, edge_weight, add_self_loops
    )
    src, dst = edges
    flow = weight.unsqueeze(-1) * (h[dst] - h[src])  # [E, C]
    return (scale * net_flow(flow, edges, x.size(0))).to(x.dtype)


def _scaled(
    x: Tensor,
    edge_index: Any,
    edge_weight: Tensor | None,
    add_self_loops: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Edges, weights, :math:`x_i / \sqrt{d_i}` and :math:`d_i^{-1/2}`."""
    num_nodes = x.size(0)
    wide = torch.promote_types(x.dtype, torch.float32)
    edges, weight = checked_edges(edge_index, edge_weight, num_nodes)
    if weight is None:
        weight = torch.ones(edges.size(1), dtype=wide, device=x.device)
    weight = weight.to(wide)
    if add_self_loops:
        edges, weight = add_remaining_self_loops(
            edges, weight, fill_value=1.0, num_nodes=num_nodes
        )
    degree = both_ends(weight, edges, num_nodes)
    scale = degree.clamp(min=torch.finfo(wide).tiny).rsqrt()
    scale = scale.masked_fill(degree == 0, 0.0).unsqueeze(-1)  # [N, 1]
    return edges, weight, scale * x.to(wide), scale
