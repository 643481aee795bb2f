from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import Adj, OptTensor

from torch_energy_graph.nn.attention import DiffusionAttention
from torch_energy_graph.nn.conv.propagation_edges import (
    PropagationEdges,
    propagation_edges,
)

__all__ = ['DIFFormerConv']


class DIFFormerConv(MessagePassing):
    r"""One layer of the `"DIFFormer: Scalable (Graph) Transformers Induced by
    Energy Constrained Diffusion" <https://arxiv.org/abs/2301.09474>`_ paper:
    diffusion between all pairs of nodes, plus GCN's propagation over the
    edges of the graph.

    .. math::
        o = \frac{1}{H} \sum_h P^h V^h + \hat A\, \frac{1}{H} \sum_h V^h,
        \qquad \hat A = \hat D^{-1/2} (A + I) \hat D^{-1/2}

    with the attention P of
    :class:`~torch_energy_graph.nn.DiffusionAttention`. With
    :obj:`graph_weight` :math:`\gamma`, the terms are weighted
    :math:`1 - \gamma` and :math:`\gamma`. The heads share one propagation,
    whatever their number.

    A sparse graph costs one sort per call, unless it is given as
    :class:`~torch_energy_graph.ops.GraphCache` or sorted
    :class:`~torch_geometric.EdgeIndex`, or :obj:`cached` is set;
    :class:`~torch_energy_graph.nn.models.DIFFormer` sorts once for all of
    its layers.

    The layer does not descend on an energy (:obj:`energy_contract` is
    :obj:`None`). Each term is motivated by one:
    :func:`~torch_energy_graph.energies.diffusion_energy` and
    :func:`~torch_energy_graph.energies.dirichlet_energy`; but the weights of
    queries, keys and values are trained, and the sum of both terms has total
    mass 2.

    Args:
        in_channels (int): Size of the input features, or :obj:`-1` to derive
            it from the first input.
        out_channels (int): Size of the output, and of every head.
        heads (int, optional): Number of heads H; their mean is returned.
            (default: :obj:`1`)
        kernel (str, optional): :obj:`"simple"` (DIFFormer-s, :math:`O(N)`)
            or :obj:`"sigmoid"` (DIFFormer-a, :math:`O(N^2)` time).
            (default: :obj:`"simple"`)
        normalize (str, optional): :obj:`"node"` (the paper) or
            :obj:`"global"` (the released code: mean pooling up to
            :math:`O(1 / N)`). (default: :obj:`"node"`)
        graph_weight (float, optional): :math:`\gamma` in :math:`[0, 1]`.
            (default: :obj:`None`, the sum of both terms)
        use_graph (bool, optional): If set to :obj:`False`, there is no graph
            term, and edges are ignored. (default: :obj:`True`)
        use_value (bool, optional): If set to :obj:`False`, the value of a
            node is its input; needs :obj:`in_channels == out_channels`.
            (default: :obj:`True`)
        cached (bool, optional): If set to :obj:`True`, the sorted and
            normalised graph of the first call is used in all later ones.
            Only for a single graph whose weights are not trained.
            (default: :obj:`False`)
        weighted_degree (bool, optional): Whether degrees are sums of edge
            weights, as in PyG. :obj:`False`: as in the released code, which
            counts edges, and rounds their roots to float32.
            (default: :obj:`True`)
        add_self_loops (bool, optional): Whether nodes without a self-loop
            get one, of weight 1. (default: :obj:`True`)
        **kwargs (optional): Additional arguments of
            :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** node features :math:`(N, C_\mathrm{in})`, edges
          :math:`(2, E)` *(optional)*, edge weights :math:`(E)` *(optional)*
        - **output:** :math:`(N, C_\mathrm{out})`; with
          :obj:`return_attention_weights`, also P :math:`(N, N, H)`
    """

    energy_contract = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        kernel: str = 'simple',
        normalize: str = 'node',
        graph_weight: Optional[float] = None,
        use_graph: bool = True,
        use_value: bool = True,
        cached: bool = False,
        weighted_degree: bool = True,
        add_self_loops: bool = True,
        **kwargs,
    ):
        kwargs.setdefault('aggr', 'add')
        super().__init__(**kwargs)
        if self.flow != 'source_to_target' or kwargs['aggr'] != 'add':
            raise ValueError(
                f"'DIFFormerConv' sums from sources to targets (got "
                f'aggr={kwargs["aggr"]!r}, flow={self.flow!r}); flip the '
                f'edges to reverse the flow'
            )
        if graph_weight is not None and not 0 <= graph_weight <= 1:
            raise ValueError(
                f"'DIFFormerConv' expects graph_weight in [0, 1], or None "
                f'for the sum of both terms (got {graph_weight})'
            )
        if graph_weight is not None and not use_graph:
            raise ValueError(
                f"'DIFFormerConv' without graph term has no graph_weight "
                f'(got {graph_weight}); set use_graph=True'
            )
        self.graph_weight = graph_weight
        self.use_graph = use_graph
        self.cached = cached
        self.weighted_degree = weighted_degree
        self.add_self_loops = add_self_loops
        self._cached_edges: Optional[PropagationEdges] = None
        self.attention = DiffusionAttention(
            in_channels, out_channels, heads, kernel, normalize, use_value
        )

    @property
    def in_channels(self) -> int:
        """Size of the input features."""
        return self.attention.in_channels

    @property
    def out_channels(self) -> int:
        """Size of the output."""
        return self.attention.out_channels

    def reset_parameters(self):
        r"""Draws all weights anew, and forgets a cached graph."""
        super().reset_parameters()
        self.attention.reset_parameters()
        self._cached_edges = None

    def forward(
        self,
        x: Tensor,
        edge_index: Union[Adj, PropagationEdges, None] = None,
        edge_weight: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        return_attention_weights: Optional[bool] = None,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        r"""Runs the layer.

        Args:
            x (Tensor): Node features :math:`[N, C_\mathrm{in}]`.
            edge_index (Adj or GraphCache, optional): Edges, also as
                :meth:`prepare` returns them; needed unless
                :obj:`use_graph=False`.
            edge_weight (Tensor, optional): Edge weights :math:`[E]`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`,
                in any order. (default: :obj:`None`, one graph)
            batch_size (int, optional): Number of graphs; without it, the
                largest entry of :obj:`batch` is read from the device.
            return_attention_weights (bool, optional): If set to
                :obj:`True`, also returns :math:`P`, :math:`[N, N, H]`, with
                target i first, zero between different graphs.
        """
        out = self.attention(x, batch, batch_size)
        if self.use_graph:
            edges = edge_index
            if not isinstance(edges, PropagationEdges):
                edges = self.prepare(x, edge_index, edge_weight)
            term = self._propagate(self.attention.mean_value(x), edges)
            if self.graph_weight is None:
                out = out + term
            else:
                out = torch.lerp(out, term.to(out.dtype), self.graph_weight)
        if not return_attention_weights:
            return out
        return out, self.attention.attention_weights(x, batch, batch_size)

    def prepare(
        self,
        x: Tensor,
        edge_index: Optional[Adj],
        edge_weight: OptTensor = None,
    ) -> PropagationEdges:
        r"""Sorts and normalises the edges once, for several layers.

        Args:
            x (Tensor): Nodes of the graph, of the type that is propagated.
            edge_index (Adj or GraphCache): Edges.
            edge_weight (Tensor, optional): Edge weights :math:`[E]`.
        """
        if edge_index is None:
            raise ValueError(
                f"'{self.__class__.__name__}' needs 'edge_index'; without a "
                f'graph, set use_graph=False'
            )
        fused = not self.is_watched()
        found = self._cached_edges if fused else None
        if found is not None and found.is_for(x):
            return found
        trained = edge_weight is not None and edge_weight.requires_grad
        if self.cached and trained:
            raise ValueError(
                f"'{self.__class__.__name__}' caches edge weights only if "
                f'they need no gradient; set cached=False'
            )
        edges = propagation_edges(
            edge_index,
            edge_weight,
            x.size(0),
            x.dtype,
            self.add_self_loops,
            self.weighted_degree,
            fused,
        )
        if self.cached and fused:
            self._cached_edges = edges
        return edges

    def message(self, x_j: Tensor, edge_weight: Tensor) -> Tensor:
        return edge_weight.view(-1, 1) * x_j

    def is_watched(self) -> bool:
        r"""Whether an explainer or a hook looks at the messages."""
        return bool(self.explain) or any(
            getattr(self, f'_{stage}_forward_{when}')
            for stage in ('propagate', 'message', 'aggregate')
            for when in ('pre_hooks', 'hooks')
        )

    def _propagate(self, values: Tensor, edges: PropagationEdges) -> Tensor:
        if edges.cache is not None:
            return edges.propagate(values)
        weight = edges.weight.to(values.dtype)
        # propagate_type: (x: Tensor, edge_weight: Tensor)
        return self.propagate(edges.edge_index, x=values, edge_weight=weight)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, heads={self.attention.heads}, '
            f'kernel={self.attention.kernel!r}, '
            f'normalize={self.attention.normalize!r})'
        )
