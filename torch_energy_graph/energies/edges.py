"""What an edge does to its two ends, read from either side.

A sum of squares over edges sees the symmetric part of an adjacency only: an
edge and its reverse cost the same. So every edge acts on both of its ends,
half on each; on a list that holds both directions this is the usual sum over
in-edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_geometric.utils import scatter

from torch_energy_graph.ops import coo_edges

__all__ = ['both_ends', 'checked_edges', 'net_flow']


def checked_edges(
    edge_index: Any, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    r"""Edge list and weights of any of PyG's edge forms.

    Args:
        edge_index (Adj or GraphCache): Edges; the values of a sparse matrix
            are its weights.
        edge_weight (Tensor, optional): :math:`w \ge 0`, :math:`[E]`.
        num_nodes (int): Number of nodes.

    Returns:
        (LongTensor, Tensor or None): :math:`[2, E]` and :math:`[E]`.

    Raises:
        ValueError: If a shape is wrong or a weight negative, NaN or Inf.
        IndexError: If an edge names a node that does not exist.
    """
    edges, value = coo_edges(edge_index)
    weight = value if edge_weight is None else edge_weight
    if weight is not None and weight.shape != (edges.size(1),):
        raise ValueError(
            f"'edge_weight' must hold one weight per edge, "
            f'[{edges.size(1)}] (got {list(weight.shape)})'
        )
    if edges.numel() and not torch.compiler.is_compiling():
        low, high = (int(v) for v in torch.aminmax(edges))
        if low < 0 or high >= num_nodes:
            raise IndexError(
                f"'edge_index' names node {low if low < 0 else high}, but "
                f'there are only {num_nodes} (ids 0 to {num_nodes - 1})'
            )
        if weight is not None:
            _check_weight(weight)
    return edges.long(), weight


def both_ends(value: Tensor, edges: Tensor, num_nodes: int) -> Tensor:
    r"""Sums values :math:`[E]`, half at each end of their edge."""
    src, dst = edges
    at_dst = scatter(value, dst, dim_size=num_nodes, reduce='sum')
    at_src = scatter(value, src, dim_size=num_nodes, reduce='sum')
    return (at_dst + at_src) / 2  # [N]


def net_flow(flow: Tensor, edges: Tensor, num_nodes: int) -> Tensor:
    r"""Sums flows :math:`[E, C]`: half arrives at the target, half leaves.

    It is half the divergence: what targets gain, sources lose.
    """
    src, dst = edges
    gain = scatter(flow, dst, dim_size=num_nodes, reduce='sum')
    loss = scatter(flow, src, dim_size=num_nodes, reduce='sum')
    return (gain - loss) / 2  # [N, C]


def _check_weight(weight: Tensor) -> None:
    wrong = ~((weight >= 0) & weight.isfinite())
    if bool(wrong.any()):
        first = int(wrong.nonzero()[0])
        raise ValueError(
            f"'edge_weight' must be finite and >= 0, else the energy has no "
            f'minimum (edge {first} has {float(weight[first])})'
        )
