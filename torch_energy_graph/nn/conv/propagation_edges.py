from typing import NamedTuple, Optional, Tuple, cast

import torch
from torch import Tensor

from torch_geometric.typing import Adj, OptTensor
from torch_geometric.utils import is_sparse, scatter

from torch_energy_graph.ops import GraphCache, coo_edges, spmm

__all__ = ['PropagationEdges', 'propagation_edges']


class PropagationEdges(NamedTuple):
    r"""The edges of GCN's propagation, ready for many layers.

    Either :obj:`cache` is set (fused path: :math:`\hat A = D (A + L) D` with
    :math:`D = \mathrm{diag}(\mathrm{scale})` and
    :math:`L = \mathrm{diag}(\mathrm{loop})`), or :obj:`edge_index` (edge by
    edge) with the entries of :math:`\hat A` as weights.
    """

    cache: Optional[GraphCache]
    edge_index: OptTensor
    weight: OptTensor  # [E]
    scale: OptTensor  # [N]
    loop: OptTensor  # [N]

    def is_for(self, x: Tensor) -> bool:
        r"""Whether these are in the type that x is propagated in.

        Raises:
            ValueError: If they are of a graph of another size.
        """
        cache, scale = self._fused()
        cache.check_size(x.size(0))
        return scale.dtype == torch.promote_types(x.dtype, torch.float32)

    def propagate(self, x: Tensor) -> Tensor:
        r""":math:`\hat A x` on the fused path, :math:`[N, C]`."""
        cache, scale = self._fused()
        scale = scale.unsqueeze(-1)
        nodes = x.to(scale.dtype) * scale
        out = spmm(nodes, cache, self.weight)
        if self.loop is not None:
            out = torch.addcmul(out, self.loop.unsqueeze(-1), nodes)
        return (out * scale).to(x.dtype)

    def _fused(self) -> Tuple[GraphCache, Tensor]:
        return cast(GraphCache, self.cache), cast(Tensor, self.scale)


def propagation_edges(
    edge_index: Adj,
    edge_weight: OptTensor,
    num_nodes: int,
    dtype: torch.dtype,
    self_loops: bool = True,
    weighted_degree: bool = True,
    fused: bool = True,
) -> PropagationEdges:
    r"""Normalises the edges once, as PyG's ``gcn_norm`` does.

    Args:
        edge_index (Adj or GraphCache): Edges; the values of a sparse matrix
            are edge weights.
        edge_weight (Tensor, optional): Weights :math:`[E]`.
        num_nodes (int): Number of nodes N.
        dtype (torch.dtype): Type of the propagated nodes; half types are
            computed in float32.
        self_loops (bool, optional): Whether nodes without a self-loop get
            one, of weight 1. Parallel loops stay as they are, like all
            parallel edges. (default: :obj:`True`)
        weighted_degree (bool, optional): If set to :obj:`False`, degrees
            count edges, whatever their weights, and :math:`D` is rounded
            to float32, as in the released code. (default: :obj:`True`)
        fused (bool, optional): Whether to build the sorted cache.
            (default: :obj:`True`)

    Raises:
        ValueError: If a shape does not fit, or a degree is negative.
    """
    dtype = torch.promote_types(dtype, torch.float32)
    given = edge_index
    if isinstance(edge_index, GraphCache):
        edge_index.check_size(num_nodes)
    edge_index, value = coo_edges(edge_index)
    weight = value if edge_weight is None else edge_weight
    if weight is not None:
        if weight.shape != (edge_index.size(1),):
            raise ValueError(
                f"'edge_weight' must hold one weight per edge, "
                f'[{edge_index.size(1)}] (got {list(weight.shape)})'
            )
        weight = weight.to(dtype)
    if not fused:
        return _edge_wise(
            edge_index, weight, num_nodes, dtype, self_loops, weighted_degree
        )
    # the values of a matrix are in the order of its edge list
    edges = edge_index if is_sparse(given) else given
    cache = GraphCache.from_edge_index(edges, num_nodes)
    if weight is None or not weighted_degree:
        degree = cache.in_degree().to(dtype)
    else:
        degree = _sum_at(edge_index[1], weight, num_nodes)
    loop = None
    if self_loops:
        src, dst = edge_index
        loops = _sum_at(dst, (src == dst).to(dtype), num_nodes)
        loop = (loops == 0).to(dtype)
        degree = degree + loop
    scale = _inverse_root(degree, weighted_degree)
    if scale.dtype != dtype and weight is None:  # products are rounded, too
        weight = (scale[edge_index[0]] * scale[edge_index[1]]).to(dtype)
        loop = None if loop is None else loop * scale.square()
        scale = torch.ones_like(scale)
    return PropagationEdges(cache, None, weight, scale.to(dtype), loop)


def _edge_wise(
    edge_index: Tensor,
    given: OptTensor,
    num_nodes: int,
    dtype: torch.dtype,
    self_loops: bool,
    weighted_degree: bool,
) -> PropagationEdges:
    weight = given
    if weight is None:
        weight = torch.ones_like(edge_index[0], dtype=dtype)
    counted = weight if weighted_degree else torch.ones_like(weight)
    if self_loops:
        edges = edge_index, torch.stack([weight, counted], dim=-1)
        edge_index, both = _one_loop_each(*edges, num_nodes)
        weight, counted = both.unbind(-1)
    src, dst = edge_index
    scale = _inverse_root(_sum_at(dst, counted, num_nodes), weighted_degree)
    if given is not None:  # then products are not rounded
        scale = scale.to(dtype)
    weight = scale[src] * scale[dst] * weight
    return PropagationEdges(None, edge_index, weight, None, None)


def _one_loop_each(
    edge_index: Tensor, values: Tensor, num_nodes: int
) -> Tuple[Tensor, Tensor]:
    """Joins the self-loops of a node, or adds one: the form PyG explains."""
    src, dst = edge_index
    looped = src == dst
    loops = _sum_at(dst, looped.to(values.dtype), num_nodes)
    joined = _sum_at(dst, values * looped.unsqueeze(-1), num_nodes)
    joined = joined + (loops == 0).unsqueeze(-1)
    nodes = torch.arange(num_nodes, device=dst.device).expand(2, -1)
    edges = torch.cat([edge_index[:, ~looped], nodes], dim=1)
    return edges, torch.cat([values[~looped], joined])


def _sum_at(index: Tensor, src: Tensor, num_nodes: int) -> Tensor:
    return scatter(src, index.long(), dim_size=num_nodes, reduce='sum')


def _inverse_root(degree: Tensor, exact: bool) -> Tensor:
    """One over the root of every degree, zero where that is zero."""
    if not torch.compiler.is_compiling() and bool((degree < 0).any()):
        node = int((degree < 0).nonzero()[0])
        raise ValueError(
            f'the edge weights of node {node} sum to {float(degree[node])}, '
            f'and a degree must be >= 0; with weights of both signs, set '
            f'weighted_degree=False'
        )
    if not exact:  # the released code rounds like this
        degree = degree.float()
    known = degree > 0
    inverse = degree.where(known, 1.0).reciprocal().sqrt()
    return torch.where(known, inverse, 0.0)
