from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from torch_geometric.typing import Adj, OptTensor
from torch_geometric.utils import (
    add_self_loops,
    degree,
    remove_self_loops,
)

from torch_energy_graph.energies import lift_relations
from torch_energy_graph.ops import GraphCache, coo_edges

__all__ = ['AttentionEdges', 'logit_bias', 'prepare_edges']


class AttentionEdges(NamedTuple):
    r"""The edges an attention energy is evaluated on, ready for many steps.

    Either :obj:`cache` (fused path) or :obj:`edge_index` (edge by edge) is
    set; with relations both are of the lifted graph of N R nodes.
    """

    num_nodes: int
    cache: Optional[GraphCache]
    edge_index: OptTensor
    bias: OptTensor  # [E, H]

    def degrees(self) -> Tuple[Tensor, Tensor]:
        """In-degree and out-degree of every node."""
        if self.cache is not None:
            return self.cache.in_degree(), self.cache.out_degree()
        src, dst = self.edge_index[0], self.edge_index[1]
        return degree(dst, self.num_nodes), degree(src, self.num_nodes)


def prepare_edges(
    edge_index: Adj,
    num_nodes: int,
    bias: OptTensor = None,
    edge_type: OptTensor = None,
    num_relations: Optional[int] = None,
    self_loops: bool = False,
    fused: bool = True,
) -> AttentionEdges:
    r"""Lifts relations, adds self-loops and sorts the edges once.

    Args:
        edge_index (Adj or GraphCache): Edges from keys to queries.
        num_nodes (int): Number of nodes N.
        bias (Tensor, optional): Logit bias :math:`[E, H]`.
        edge_type (LongTensor, optional): Relation of every edge.
        num_relations (int, optional): Number of relations R.
        self_loops (bool, optional): Whether every node gets exactly one
            self-loop (in every relation), of bias zero.
        fused (bool, optional): Whether to build the sorted cache.
    """
    if fused and num_relations is None and not self_loops:
        cache = GraphCache.from_edge_index(edge_index, num_nodes)
        return AttentionEdges(num_nodes, cache, None, bias)
    if isinstance(edge_index, GraphCache):
        edge_index.check_size(num_nodes)
    edge_index, _ = coo_edges(edge_index)
    if num_relations is not None:
        edge_index = lift_relations(edge_index, edge_type, num_relations)
        num_nodes = num_nodes * num_relations
    if self_loops:
        edge_index, bias = remove_self_loops(edge_index, bias)
        edge_index, bias = add_self_loops(
            edge_index, bias, fill_value=0.0, num_nodes=num_nodes
        )
    if not fused:
        return AttentionEdges(num_nodes, None, edge_index, bias)
    cache = GraphCache.from_edge_index(edge_index, num_nodes)
    return AttentionEdges(num_nodes, cache, None, bias)


def logit_bias(
    num_edges: int,
    num_heads: int,
    edge_weight: OptTensor,
    edge_bias: OptTensor,
) -> OptTensor:
    r"""Sum of :math:`\log w_e` and the bias of the edge features.

    Args:
        num_edges (int): E.
        num_heads (int): H.
        edge_weight (Tensor, optional): :math:`w > 0`, :math:`[E]`.
        edge_bias (Tensor, optional): :math:`[E, H]`.

    Raises:
        ValueError: If a weight is missing, negative, zero or NaN.
    """
    if edge_weight is None:
        return edge_bias
    if edge_weight.shape != (num_edges,):
        raise ValueError(
            f"'edge_weight' must hold one weight per edge, [{num_edges}] "
            f'(got {list(edge_weight.shape)}); edge features go to '
            f"'edge_attr' with 'edge_dim' set"
        )
    if not torch.compiler.is_compiling():
        wrong = ~(edge_weight > 0)
        if wrong.any():
            first = int(wrong.nonzero()[0])
            raise ValueError(
                f"'edge_weight' must be > 0, since the logit bias is log w "
                f'(edge {first} has {float(edge_weight[first])}); drop edges '
                f'of weight 0'
            )
    bias = edge_weight.log().view(-1, 1).repeat(1, num_heads)  # [E, H]
    return bias if edge_bias is None else bias + edge_bias
