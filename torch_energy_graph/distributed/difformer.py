r"""DIFFormer on sharded nodes: same parameters, same outputs, every rank.

Encoder, norms, dropout and head work node by node. What sees other nodes is
replaced: attention by
:func:`~torch_energy_graph.distributed.sharded_linear_attention`, propagation
by the following. A rank has all in-edges of its nodes, so their degrees are
local; the halo's are fetched once per model, its values once per layer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_energy_graph.distributed.collectives import Group
from torch_energy_graph.distributed.linear_attention import (
    sharded_linear_attention,
)
from torch_energy_graph.distributed.sharded_graph import ShardedGraph
from torch_energy_graph.nn.conv.difformer_conv import DIFFormerConv
from torch_energy_graph.nn.conv.propagation_edges import (
    PropagationEdges,
    propagation_edges,
)
from torch_energy_graph.nn.models.difformer import DIFFormer

__all__ = ['ShardedDIFFormer', 'ShardedDIFFormerConv']


class _Edges(NamedTuple):
    """Normalised edges among owned nodes and halo."""

    graph: ShardedGraph
    local: PropagationEdges
    group: Group

    def propagate(self, x: Tensor) -> Tensor:
        r""":math:`\hat A x` at the owned nodes, `[N_r, C]`."""
        rows = self.local.propagate(self.graph.with_halo(x, self.group))
        return rows[: x.size(0)]


class ShardedDIFFormerConv(torch.nn.Module):
    r"""A :class:`~torch_energy_graph.nn.DIFFormerConv` on sharded nodes.

    It shares the parameters of the layer it is made from, under the same
    names. Its output is what that layer gives for the whole graph, its
    gradients those of the losses of all ranks together; rows are this rank's.
    One thing differs: with :obj:`weighted_degree=False` and no edge weights,
    float64 degrees are not rounded to float32 as the released code does.

    Args:
        conv (DIFFormerConv): Of kernel :obj:`"simple"`.
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)

    Raises:
        ValueError: If the kernel is :obj:`"sigmoid"`: its attention is no
            function of a few sums over nodes.
    """

    energy_contract = None

    def __init__(self, conv: DIFFormerConv, group: Group = None) -> None:
        super().__init__()
        if conv.attention.kernel != 'simple':
            raise ValueError(
                f"'ShardedDIFFormerConv' expects kernel 'simple' (got "
                f'{conv.attention.kernel!r}, which needs all pairs of nodes '
                f'in one process)'
            )
        self.attention = conv.attention
        self.use_graph = conv.use_graph
        self.graph_weight = conv.graph_weight
        self.weighted_degree = conv.weighted_degree
        self.add_self_loops = conv.add_self_loops
        self.group = group

    def reset_parameters(self) -> None:
        """Draw all weights anew; seed every rank alike before."""
        self.attention.reset_parameters()

    def forward(
        self,
        x: Tensor,
        graph: ShardedGraph | _Edges | None = None,
        edge_weight: Tensor | None = None,
        batch: None = None,
        batch_size: None = None,
    ) -> Tensor:
        r"""Run the layer on every rank.

        Args:
            x (Tensor): Features of the owned nodes,
                :math:`[N_r, C_\mathrm{in}]`.
            graph (ShardedGraph, optional): This rank's part; needed unless
                :obj:`use_graph=False`.
            edge_weight (Tensor, optional): Weights of its edges,
                :math:`[E_r]`, if not those of :obj:`graph`.
            batch (None): Refused: there is one graph.
            batch_size (None): Refused, too.

        Returns:
            Tensor: :math:`[N_r, C_\mathrm{out}]`.
        """
        if batch is not None or batch_size is not None:
            raise ValueError(
                "'ShardedDIFFormerConv' expects one graph (got 'batch' or "
                "'batch_size'); share a batch out by whole graphs, which need "
                'no exchange'
            )
        self.attention.initialize(x)
        q, k, v = self.attention.project(x)
        out = sharded_linear_attention(
            q, k, v, self.attention.normalize, self.group
        ).mean(1)
        if not self.use_graph:
            return out
        edges = graph
        if not isinstance(edges, _Edges):
            edges = self.prepare(x, edges, edge_weight)
        term = edges.propagate(self.attention.mean_value(x))
        if self.graph_weight is None:
            return out + term
        return torch.lerp(out, term, self.graph_weight)

    def prepare(
        self,
        x: Tensor,
        graph: ShardedGraph | None,
        edge_weight: Tensor | None = None,
    ) -> _Edges:
        r"""Normalise the edges once, for several layers.

        Args:
            x (Tensor): Rows of the owned nodes, of the type that is
                propagated.
            graph (ShardedGraph): This rank's part.
            edge_weight (Tensor, optional): Weights of its edges,
                :math:`[E_r]`, if not those of :obj:`graph`.
        """
        if not isinstance(graph, ShardedGraph):
            raise TypeError(
                f"expected a 'ShardedGraph' (got {type(graph).__name__}); "
                f"cut one with 'ShardedGraph.from_data', or set "
                f'use_graph=False'
            )
        weight = graph.edge_weight if edge_weight is None else edge_weight
        local = propagation_edges(
            graph.cache,
            weight,
            graph.cache.num_dst,
            x.dtype,
            self.add_self_loops,
            # without weights the same degrees, not rounded to float32
            self.weighted_degree or weight is None,
        )
        # only owned nodes have all of their in-edges here
        scale = graph.with_halo(local.scale[: x.size(0)], self.group)
        return _Edges(graph, local._replace(scale=scale), self.group)


class ShardedDIFFormer(DIFFormer):
    r"""A :class:`~torch_energy_graph.nn.models.DIFFormer` on sharded nodes.

    Call it as :obj:`model(x, graph)` on every rank, with a
    :class:`~torch_energy_graph.distributed.ShardedGraph` and the features of
    its nodes. It has the arguments, the parameters and the
    :obj:`state_dict` of :class:`~torch_energy_graph.nn.models.DIFFormer`,
    and returns this rank's rows of its output.

    Args:
        *args: As of :class:`~torch_energy_graph.nn.models.DIFFormer`.
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)
        **kwargs: As of :class:`~torch_energy_graph.nn.models.DIFFormer`.
    """

    def __init__(self, *args: Any, group: Group = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        convs: Iterable[Any] = self.convs
        self.convs = torch.nn.ModuleList(
            ShardedDIFFormerConv(conv, group) for conv in convs
        )

    def _prepare(
        self, z: Tensor, edge_index: ShardedGraph, edge_weight: Tensor | None
    ) -> _Edges | None:
        if not self.use_graph:
            return None
        first: Any = self.convs[0]
        edges: _Edges = first.prepare(z, edge_index, edge_weight)
        return edges
