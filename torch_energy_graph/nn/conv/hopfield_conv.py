import math
from typing import Optional, Tuple, Union

import torch.nn.functional as F
from torch import Tensor

from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor, PairTensor

from torch_energy_graph.energies import reduce_energy
from torch_energy_graph.energies.separation import separate
from torch_energy_graph.nn.attention.association import (
    check_retrieval,
    retrieve,
)
from torch_energy_graph.nn.attention.hopfield_projection import (
    Beta,
    make_beta,
)
from torch_energy_graph.nn.conv.edge_association import EdgeAssociation
from torch_energy_graph.ops import GraphCache, coo_edges

__all__ = ['HopfieldConv']


class HopfieldConv(MessagePassing):
    r"""The Hopfield association of the `"Hopfield Networks is All You Need"
    <https://arxiv.org/abs/2008.02217>`_ paper over the edges of a graph:
    every node retrieves from its in-neighbours.

    .. math::
        p_e = \mathrm{softmax}_{e \in \mathcal{N}(i)} \big( \beta_h\,
        \xi_i^\top (k_j + W_E e_{ji}) \big), \qquad
        \xi_i \leftarrow \sum_{e = (j, i)} p_e (k_j + W_E e_{ji})
        \ \text{(steps - 1 times)}

    .. math::
        x_i' = W_S x_i + \sum_{e = (j, i)} p_e (v_j + W_E e_{ji})

    with :math:`\xi_i = W_Q x_i`, :math:`k_j = W_K x_j`,
    :math:`v_j = W_V x_j` for every head. With :obj:`steps=1` this is
    :class:`~torch_geometric.nn.conv.TransformerConv`, whose weights it
    loads. The updates descend on
    :func:`~torch_energy_graph.energies.retrieval_energy` (:meth:`energy`);
    the value projection after them does not. Nothing is normalised here.

    Without edge features and with the softmax, all runs on
    :func:`~torch_energy_graph.ops.energy_attention`.

    Args:
        in_channels (int or tuple): Size of the nodes, of sources and targets
            in a bipartite graph, or :obj:`-1` to derive it from the first
            input.
        out_channels (int): Size of the output of a head, and of its
            association space.
        heads (int, optional): Number of heads H. (default: :obj:`1`)
        concat (bool, optional): If set to :obj:`False`, the heads are
            averaged instead of concatenated. (default: :obj:`True`)
        beta (float, Sequence, Tensor or str, optional): Inverse temperature:
            a number, one per head, or :obj:`"learn"` (one per head).
            (default: :math:`1 / \sqrt{d}`, d the output channels)
        steps (int, optional): Number of associations; the last reads the
            values. (default: :obj:`1`)
        tol (float, optional): A node whose update moved it by at most this
            distance is final; :obj:`steps` is the limit then.
            (default: :obj:`None`)
        separation (str, optional): :obj:`"softmax"`, :obj:`"sparsemax"`,
            :obj:`"entmax15"` or :obj:`"softmax1"`.
            (default: :obj:`"softmax"`)
        edge_dim (int, optional): Number of edge features; they add to keys
            and values. (default: :obj:`None`)
        dropout (float, optional): Dropout of the weights that read the
            values. (default: :obj:`0.`)
        bias (bool, optional): If set to :obj:`False`, maps have no bias.
            (default: :obj:`True`)
        root_weight (bool, optional): If set to :obj:`False`, the node itself
            is not added. (default: :obj:`True`)
        **kwargs (optional): Additional arguments of
            :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** node features :math:`(N, C_\mathrm{in})`, or a pair of
          sources and targets, edges :math:`(2, E)`, edge features
          :math:`(E, D)` *(optional)*
        - **output:** :math:`(N, H \cdot C_\mathrm{out})`, or
          :math:`(N, C_\mathrm{out})` with :obj:`concat=False`; with
          :obj:`return_attention_weights`, also the edges and their weights
          :math:`(E, H)`
    """

    energy_contract = 'retrieval'

    def __init__(
        self,
        in_channels: Union[int, Tuple[int, int]],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: Beta = None,
        steps: int = 1,
        tol: Optional[float] = None,
        separation: str = 'softmax',
        edge_dim: Optional[int] = None,
        dropout: float = 0.0,
        bias: bool = True,
        root_weight: bool = True,
        **kwargs,
    ):
        kwargs.setdefault('aggr', 'add')
        super().__init__(node_dim=0, **kwargs)
        if self.flow != 'source_to_target' or kwargs['aggr'] != 'add':
            raise ValueError(
                f"'HopfieldConv' sums from sources to targets (got "
                f'aggr={kwargs["aggr"]!r}, flow={self.flow!r}); flip the '
                f'edges to reverse the flow'
            )
        if min(out_channels, heads) < 1:
            raise ValueError(
                f"'HopfieldConv' expects out_channels >= 1 and heads >= 1 "
                f'(got {out_channels} and {heads})'
            )
        check_retrieval('HopfieldConv', steps, tol, separation)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.steps = steps
        self.tol = tol
        self.separation = separation
        self.edge_dim = edge_dim
        self.dropout = dropout
        if isinstance(in_channels, int):
            in_channels = (in_channels, in_channels)
        width = heads * out_channels
        self.beta = make_beta(beta, 1 / math.sqrt(out_channels), heads)
        self.lin_key = Linear(in_channels[0], width, bias=bias)
        self.lin_query = Linear(in_channels[1], width, bias=bias)
        self.lin_value = Linear(in_channels[0], width, bias=bias)
        if edge_dim is not None:
            self.lin_edge = Linear(edge_dim, width, bias=False)
        else:
            self.register_module('lin_edge', None)
        if root_weight:
            out = width if concat else out_channels
            self.lin_skip = Linear(in_channels[1], out, bias=bias)
        else:
            self.register_module('lin_skip', None)

    def reset_parameters(self):
        r"""Draws all weights anew."""
        super().reset_parameters()
        for module in (
            self.beta,
            self.lin_key,
            self.lin_query,
            self.lin_value,
            self.lin_edge,
            self.lin_skip,
        ):
            if module is not None:
                module.reset_parameters()

    def forward(
        self,
        x: Union[Tensor, PairTensor],
        edge_index: Adj,
        edge_attr: OptTensor = None,
        return_attention_weights: Optional[bool] = None,
    ) -> Union[Tensor, Tuple[Tensor, Tuple[Tensor, Tensor]]]:
        r"""Runs the layer.

        Args:
            x (Tensor or (Tensor, Tensor)): Node features
                :math:`[N, C_\mathrm{in}]`, or those of sources and targets.
            edge_index (Adj or GraphCache): Edges from sources to targets.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
            return_attention_weights (bool, optional): If set to :obj:`True`,
                also returns :obj:`(edge_index, p)` of the last association.
        """
        dropped = self.training and self.dropout > 0
        looked_at = bool(return_attention_weights) or dropped
        found = self.association(x, edge_index, edge_attr, not looked_at)
        x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
        values = self._headed(self.lin_value, x_src)
        state = retrieve(found, self.steps - 1, self.tol)
        if found.cache is not None:
            alpha, out = None, found.read_cached(state, values)
        else:
            alpha = found.weights(state)  # [E, H]
            read = F.dropout(alpha, self.dropout, training=self.training)
            out = found.read(read, values)  # [N_dst, H, C_out]
        out = out.flatten(1) if self.concat else out.mean(1)
        if self.lin_skip is not None:
            out = out + self.lin_skip(x_dst)
        if alpha is None or not return_attention_weights:
            return out
        return out, (found.edges(), alpha)

    def energy(
        self,
        x: Union[Tensor, PairTensor],
        edge_index: Adj,
        edge_attr: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        reduction: str = 'graph',
    ) -> Tensor:
        r"""The energy of the targets, :obj:`steps` updates after the first.

        Args:
            x (Tensor or (Tensor, Tensor)): As in :meth:`forward`.
            edge_index (Adj or GraphCache): As in :meth:`forward`.
            edge_attr (Tensor, optional): As in :meth:`forward`.
            batch (LongTensor, optional): Graph of every target.
            batch_size (int, optional): Number of graphs.
            reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.

        Returns:
            Tensor: A scalar, :math:`[B]` with :obj:`batch`, or
            :math:`[N_\mathrm{dst}]`, the sum over the heads, for
            :obj:`"node"`.
        """
        found = self.association(x, edge_index, edge_attr)
        energy = found.energy(retrieve(found, self.steps, self.tol)).sum(1)
        return reduce_energy(energy, batch, batch_size, reduction)

    def association(
        self,
        x: Union[Tensor, PairTensor],
        edge_index: Adj,
        edge_attr: OptTensor = None,
        fused: bool = True,
    ) -> EdgeAssociation:
        r"""Targets as states and sources as patterns, for retrieval step by
        step.

        Args:
            x (Tensor or (Tensor, Tensor)): As in :meth:`forward`.
            edge_index (Adj or GraphCache): As in :meth:`forward`.
            edge_attr (Tensor, optional): As in :meth:`forward`.
            fused (bool, optional): Whether sorted edges may be used instead
                of messages. (default: :obj:`True`)
        """
        x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
        state = self._headed(self.lin_query, x_dst)
        keys = self._headed(self.lin_key, x_src)
        fused = fused and self.separation == 'softmax'
        if fused and self.edge_dim is None and not self._is_watched():
            size = keys.size(0), state.size(0)
            cache = GraphCache.from_edge_index(edge_index, size)
            edge = self._edge_features(edge_attr, None, cache.num_edges)
            edges: Union[Tensor, GraphCache] = cache
        else:
            edges, value = coo_edges(edge_index)
            edge = self._edge_features(edge_attr, value, edges.size(1))
        options = self.beta(), self.separation
        return EdgeAssociation(self, state, keys, edges, edge, *options)

    def edge_weights(
        self, edge_index: Tensor, state: Tensor, key: Tensor, edge: OptTensor
    ) -> Tensor:
        r"""Weights :math:`[E, H]` of states times beta with their keys."""
        size = (key.size(0), state.size(0))
        # edge_updater_type: (state: Tensor, key: Tensor, edge: OptTensor)
        return self.edge_updater(
            edge_index, state=state, key=key, edge=edge, size=size
        )

    def read_edges(
        self,
        edge_index: Tensor,
        alpha: Tensor,
        x: Tensor,
        edge: OptTensor,
        num_targets: int,
    ) -> Tensor:
        r"""Weighted sums over in-edges, :math:`[N_\mathrm{dst}, H, d]`."""
        size = (x.size(0), num_targets)
        # propagate_type: (x: Tensor, alpha: Tensor, edge: OptTensor)
        return self.propagate(
            edge_index, x=x, alpha=alpha, edge=edge, size=size
        )

    def edge_update(
        self,
        state_i: Tensor,
        key_j: Tensor,
        edge: OptTensor,
        index: Tensor,
        dim_size: Optional[int],
    ) -> Tensor:
        key = key_j if edge is None else key_j + edge
        scores = (state_i * key).sum(-1)  # [E, H]
        return separate(scores, self.separation, index, num_sets=dim_size)

    def message(self, x_j: Tensor, alpha: Tensor, edge: OptTensor) -> Tensor:
        value = x_j if edge is None else x_j + edge
        return alpha.unsqueeze(-1) * value  # [E, H, C_out]

    def _headed(self, lin: Linear, x: OptTensor) -> Tensor:
        if not isinstance(x, Tensor) or x.dim() != 2:
            shape = 'None' if x is None else list(x.shape)
            raise ValueError(
                f"'{self.__class__.__name__}' expects features [N, C] of "
                f'sources and targets, also in a bipartite graph (got {shape})'
            )
        if lin.in_channels != -1 and x.size(1) != lin.in_channels:
            raise ValueError(
                f"'{self.__class__.__name__}' expects node features of shape "
                f'[N, {lin.in_channels}] (got {list(x.shape)})'
            )
        return lin(x).view(-1, self.heads, self.out_channels)

    def _edge_features(
        self, edge_attr: OptTensor, value: OptTensor, num_edges: int
    ) -> OptTensor:
        """What edges add to keys and values, `[E, H, C_out]`."""
        if self.edge_dim is not None and edge_attr is None:
            edge_attr = value  # of a sparse matrix
        if (edge_attr is None) != (self.edge_dim is None):
            raise ValueError(
                f"'{self.__class__.__name__}' takes 'edge_attr' exactly when "
                f"it was built with 'edge_dim' (got edge_dim={self.edge_dim})"
            )
        if edge_attr is None:
            return None
        if edge_attr.dim() == 1:
            edge_attr = edge_attr.view(-1, 1)
        if edge_attr.shape != (num_edges, self.edge_dim):
            raise ValueError(
                f"'edge_attr' must have shape [E, edge_dim] = "
                f'[{num_edges}, {self.edge_dim}] (got {list(edge_attr.shape)})'
            )
        edge = self.lin_edge(edge_attr)
        return edge.view(-1, self.heads, self.out_channels)

    def _is_watched(self) -> bool:
        """Whether an explainer or a hook looks at the messages."""
        return bool(self.explain) or any(
            getattr(self, f'_{stage}_forward_{when}')
            for stage in ('propagate', 'edge_update', 'message', 'aggregate')
            for when in ('pre_hooks', 'hooks')
        )

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, heads={self.heads}, steps={self.steps})'
        )
