import math
from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot
from torch_geometric.typing import Adj, OptTensor
from torch_geometric.utils import is_sparse

from torch_energy_graph.dynamics import attention_curvature
from torch_energy_graph.energies import (
    attention_energy,
    attention_energy_grad,
    reduce_energy,
)
from torch_energy_graph.nn.conv.attention_edges import (
    AttentionEdges,
    logit_bias,
    prepare_edges,
)
from torch_energy_graph.nn.positive import PositiveScalar
from torch_energy_graph.ops import GraphCache, coo_edges, scatter_softmax

__all__ = ['EnergyAttentionConv']


class EnergyAttentionConv(MessagePassing):
    r"""The energy attention of the `"Energy Transformer"
    <https://arxiv.org/abs/2302.07253>`_ paper (eq. 3, 4) on a graph: its
    output is the exact negative gradient of an energy.

    .. math::
        E(g) = -\sum_h \frac{1}{\beta_h} \sum_i \log
        \sum_{e = (j, i)} \exp \big( \beta_h\, (W_Q^h g_i)^\top (W_K^h g_j)
        + b_e^h \big)

    .. math::
        -\frac{\partial E}{\partial g_n} = \sum_h
        W_Q^{h\top} \sum_{e = (j, n)} p_e^h\, W_K^h g_j +
        W_K^{h\top} \sum_{e = (n, i)} p_e^h\, W_Q^h g_i

    with :math:`p_e^h` the softmax over the in-edges of the query. The second
    sum runs along the transposed edges, so that the gradient is exact on
    directed graphs, too. Parallel edges count as often as they stand; a node
    without in-edges contributes no energy.

    Args:
        channels (int): Number of channels C of the activations.
        heads (int, optional): Number of heads H. (default: :obj:`1`)
        head_channels (int, optional): Channels Y of a head.
            (default: :obj:`channels // heads`)
        beta (float or str, optional): Inverse temperature :math:`\beta_h`, a
            number or :obj:`"learn"` (one per head).
            (default: :math:`1 / \sqrt{Y}`)
        edge_dim (int, optional): Number of edge features; they add a linear
            logit bias :math:`b_e`. (default: :obj:`None`)
        num_relations (int, optional): Number of relations; each has its own
            :math:`W_Q, W_K`, and their energies add up.
            (default: :obj:`None`)
        add_self_loops (bool, optional): If set to :obj:`True`, every node
            attends to itself exactly once (in every relation). Under
            ``torch.compile(fullgraph=True)`` add the loops to the data
            instead. (default: :obj:`False`)
        **kwargs (optional): Additional arguments of
            :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** activations :math:`(N, C)`, edges :math:`(2, E)`, edge
          features :math:`(E, D)` *(optional)*
        - **output:** :math:`-\partial E / \partial g`, :math:`(N, C)`; with
          :obj:`return_attention_weights`, also the edges and their weights
          :math:`(E, H)`
    """

    energy_contract = 'exact'

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        head_channels: Optional[int] = None,
        beta: Union[float, str, None] = None,
        edge_dim: Optional[int] = None,
        num_relations: Optional[int] = None,
        add_self_loops: bool = False,
        **kwargs,
    ):
        kwargs.setdefault('aggr', 'add')
        super().__init__(node_dim=0, **kwargs)
        if self.flow != 'source_to_target' or kwargs['aggr'] != 'add':
            raise ValueError(
                f"'{self.__class__.__name__}' sums from sources to targets "
                f'(got aggr={kwargs["aggr"]!r}, flow={self.flow!r}); anything '
                f'else is not the gradient of its energy. Flip the edges to '
                f'reverse the flow'
            )
        if head_channels is None:
            head_channels = max(channels // max(heads, 1), 1)
        _check_positive(
            self.__class__.__name__,
            channels=channels,
            heads=heads,
            head_channels=head_channels,
            edge_dim=edge_dim,
            num_relations=num_relations,
        )
        self.channels = channels
        self.heads = heads
        self.head_channels = head_channels
        self.edge_dim = edge_dim
        self.num_relations = num_relations
        self.add_self_loops = add_self_loops
        self.beta = PositiveScalar(
            'beta', beta, 1 / math.sqrt(head_channels), heads
        )
        relations = [] if num_relations is None else [num_relations]
        shape = (*relations, heads, head_channels, channels)
        self.weight_q = Parameter(torch.empty(shape))
        self.weight_k = Parameter(torch.empty(shape))
        if edge_dim is not None:
            self.lin_edge = Linear(
                edge_dim, heads, bias=False, weight_initializer='glorot'
            )
        else:
            self.register_parameter('lin_edge', None)
        self.reset_parameters()

    def reset_parameters(self):
        super().reset_parameters()
        for weight in (self.weight_q, self.weight_k):
            flat = weight.detach().view(-1, self.channels)
            for block in flat.split(self.heads * self.head_channels):
                glorot(block)
        self.beta.reset_parameters()
        if self.lin_edge is not None:
            self.lin_edge.reset_parameters()

    def forward(
        self,
        g: Tensor,
        edge_index: Adj,
        edge_attr: OptTensor = None,
        edge_type: OptTensor = None,
        return_attention_weights: Optional[bool] = None,
        edge_weight: OptTensor = None,
    ) -> Union[Tensor, Tuple[Tensor, Tuple[Tensor, Tensor]]]:
        r"""Returns :math:`-\partial E / \partial g`.

        Args:
            g (Tensor): Activations :math:`[N, C]`.
            edge_index (Adj or GraphCache): Edges from keys to queries.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
            edge_type (LongTensor, optional): Relations :math:`[E]`.
            return_attention_weights (bool, optional): If set to
                :obj:`True`, also returns :obj:`(edge_index, p)`.
            edge_weight (Tensor, optional): Weights :math:`w > 0`,
                :math:`[E]`; they add the logit bias :math:`\log w`.
        """
        fused = not (return_attention_weights or self._is_watched())
        edges = self.prepare(
            g, edge_index, edge_attr, edge_type, edge_weight, fused
        )
        if not return_attention_weights:
            return self.descent(g, edges)
        out, alpha = self._edge_wise(g, edges)
        return out, (edges.edge_index // (self.num_relations or 1), alpha)

    def energy(
        self,
        g: Tensor,
        edge_index: Adj,
        edge_attr: OptTensor = None,
        edge_type: OptTensor = None,
        edge_weight: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        reduction: str = 'graph',
    ) -> Tensor:
        r"""The energy of activations.

        Args:
            g (Tensor): Activations :math:`[N, C]`.
            edge_index (Adj or GraphCache): Edges from keys to queries.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
            edge_type (LongTensor, optional): Relations :math:`[E]`.
            edge_weight (Tensor, optional): Weights :math:`w > 0`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`.
            batch_size (int, optional): Number of graphs.
            reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.

        Returns:
            Tensor: A scalar, :math:`[B]` with :obj:`batch`, or :math:`[N]`
            (energy of each query) for :obj:`"node"`.
        """
        edges = self.prepare(g, edge_index, edge_attr, edge_type, edge_weight)
        energy = self.node_energy(g, edges)
        return reduce_energy(energy, batch, batch_size, reduction)

    def prepare(
        self,
        g: Tensor,
        edge_index: Adj,
        edge_attr: OptTensor = None,
        edge_type: OptTensor = None,
        edge_weight: OptTensor = None,
        fused: Optional[bool] = None,
    ) -> AttentionEdges:
        r"""Checks and sorts the edges once, for several calls of
        :meth:`descent` and :meth:`node_energy`.
        """
        self._check_activation(g)
        if is_sparse(edge_index):
            edge_index, value = coo_edges(edge_index)
            edge_attr, edge_weight = self._place_value(
                value, edge_attr, edge_weight
            )
        if (edge_type is None) != (self.num_relations is None):
            raise ValueError(
                f"'{self.__class__.__name__}' takes 'edge_type' exactly when "
                f"it was built with 'num_relations' "
                f'(got num_relations={self.num_relations})'
            )
        num_edges = _num_edges(edge_index)
        edge_bias = self._edge_bias(edge_attr, num_edges)
        bias = logit_bias(num_edges, self.heads, edge_weight, edge_bias)
        return prepare_edges(
            edge_index,
            g.size(0),
            bias,
            edge_type,
            self.num_relations,
            self.add_self_loops,
            not self._is_watched() if fused is None else fused,
        )

    def descent(self, g: Tensor, edges: AttentionEdges) -> Tensor:
        r""":math:`-\partial E / \partial g` on prepared edges."""
        if edges.cache is None:
            return self._edge_wise(g, edges)[0]
        beta, bias = self.beta(), edges.bias
        return -attention_energy_grad(
            g, self.weight_q, self.weight_k, edges.cache, beta, bias
        )

    def node_energy(self, g: Tensor, edges: AttentionEdges) -> Tensor:
        r"""Energy of every query on prepared edges, :math:`[N]`."""
        cache = edges.cache
        if cache is None:
            cache = GraphCache.from_edge_index(
                edges.edge_index, edges.num_nodes
            )
        return attention_energy(
            g, self.weight_q, self.weight_k, cache, self.beta(), edges.bias
        )

    def curvature(self, edges: AttentionEdges) -> Tensor:
        r"""Curvature bound :math:`L` of the certified step, :math:`[N]`."""
        return attention_curvature(
            self.weight_q, self.weight_k, *edges.degrees()
        )

    def edge_update(
        self,
        q_i: Tensor,
        k_j: Tensor,
        bias: OptTensor,
        index: Tensor,
        dim_size: Optional[int],
    ) -> Tensor:
        logits = (q_i * k_j).sum(-1)  # [E, H]
        if bias is not None:
            logits = logits + bias
        return scatter_softmax(logits, index, num_nodes=dim_size)

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        return alpha.unsqueeze(-1) * x_j  # [E, H, Y]

    def _edge_wise(
        self, g: Tensor, edges: AttentionEdges
    ) -> Tuple[Tensor, Tensor]:
        """Same as the fused path, edge by edge; also the weights [E, H]."""
        w_q = self.weight_q.view(-1, self.channels)  # [R * H * Y, C]
        w_k = self.weight_k.view(-1, self.channels)
        q = F.linear(g, w_q).view(-1, self.heads, self.head_channels)
        k = F.linear(g, w_k).view(-1, self.heads, self.head_channels)
        beta = self.beta()
        if isinstance(beta, Tensor):
            beta = beta.to(q.dtype).unsqueeze(-1)  # [H, 1]
        size = (edges.num_nodes, edges.num_nodes)
        # edge_updater_type: (q: Tensor, k: Tensor, bias: OptTensor)
        alpha = self.edge_updater(
            edges.edge_index, q=beta * q, k=k, bias=edges.bias, size=size
        )
        # propagate_type: (x: Tensor, alpha: Tensor)
        u = self.propagate(edges.edge_index, x=k, alpha=alpha, size=size)
        # the same edges backwards: every key reads its queries
        back = edges.edge_index.flip(0)
        v = self.propagate(back, x=q, alpha=alpha, size=size)
        out = u.reshape(-1, w_q.size(0)) @ w_q
        return out + v.reshape(-1, w_k.size(0)) @ w_k, alpha

    def _is_watched(self) -> bool:
        """Whether an explainer or a hook looks at the messages."""
        return bool(self.explain) or any(
            getattr(self, f'_{stage}_forward_{when}')
            for stage in ('propagate', 'edge_update', 'message', 'aggregate')
            for when in ('pre_hooks', 'hooks')
        )

    def _check_activation(self, g: Tensor) -> None:
        if not isinstance(g, Tensor):
            raise ValueError(
                f"'{self.__class__.__name__}' does not support bipartite "
                f'input: its energy needs one activation per node (got '
                f'{type(g).__name__}); use a homogeneous graph with '
                f"'edge_type' and 'num_relations', or a 'TransformerConv'"
            )
        if g.dim() != 2 or g.size(1) != self.channels:
            raise ValueError(
                f"'{self.__class__.__name__}' expects activations of shape "
                f'[N, {self.channels}] (got {list(g.shape)})'
            )

    def _place_value(
        self, value: OptTensor, edge_attr: OptTensor, edge_weight: OptTensor
    ) -> Tuple[OptTensor, OptTensor]:
        """Values of a sparse matrix are edge features or edge weights."""
        if value is None or edge_attr is not None or edge_weight is not None:
            return edge_attr, edge_weight
        if self.edge_dim is not None:
            return value, None
        return None, value

    def _edge_bias(self, edge_attr: OptTensor, num_edges: int) -> OptTensor:
        if (edge_attr is None) != (self.edge_dim is None):
            raise ValueError(
                f"'{self.__class__.__name__}' takes 'edge_attr' exactly when "
                f"it was built with 'edge_dim' (got edge_dim={self.edge_dim})"
                f"; scalar weights > 0 go to 'edge_weight'"
            )
        if edge_attr is None:
            return None
        edge_attr = (
            edge_attr.view(-1, 1) if edge_attr.dim() == 1 else edge_attr
        )
        if edge_attr.shape != (num_edges, self.edge_dim):
            raise ValueError(
                f"'edge_attr' must have shape [E, edge_dim] = "
                f'[{num_edges}, {self.edge_dim}] (got {list(edge_attr.shape)})'
            )
        return self.lin_edge(edge_attr)  # [E, H]

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.channels}, heads={self.heads}, '
            f'head_channels={self.head_channels})'
        )


def _num_edges(edge_index: Adj) -> int:
    if isinstance(edge_index, GraphCache):
        return edge_index.num_edges
    return coo_edges(edge_index)[0].size(1)


def _check_positive(layer: str, **values: Optional[int]) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise ValueError(f"'{layer}' expects {name} >= 1 (got {value})")
