from typing import List, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import ModuleList

from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.resolver import aggregation_resolver
from torch_geometric.typing import Adj, OptTensor
from torch_geometric.utils import is_sparse

from torch_energy_graph.dynamics import EnergyTrace
from torch_energy_graph.nn.conv import (
    EnergyAttentionConv,
    EnergyTransformerConv,
)
from torch_energy_graph.nn.conv.edge_modulation import EdgeModulation
from torch_energy_graph.nn.encoding.random_signs import RandomSigns
from torch_energy_graph.nn.models.class_token import ClassToken, TokenGraph
from torch_energy_graph.ops import GraphCache, coo_edges

__all__ = ['EnergyTransformer']


class EnergyTransformer(torch.nn.Module):
    r"""The graph model of the `"Energy Transformer"
    <https://arxiv.org/abs/2302.07253>`_ paper, for nodes and whole graphs.

    .. math::
        x^0_i = W y_i + b + P \lambda_i, \qquad
        x^{s+1} = \mathrm{block}_s(x^s), \qquad
        z = V \, \mathrm{readout}(g^S) + c, \quad
        g^S = \mathrm{norm}(x^S)

    Features y and positions :math:`\lambda` (from PyG's
    ``AddLaplacianEigenvectorPE`` or ``AddRandomWalkPE``) are embedded, S
    blocks of :class:`~torch_energy_graph.nn.EnergyTransformerConv` descend T
    steps each, every block on an energy of its own, and a linear map reads
    the last activations. Between two blocks the energy changes; within one
    it falls, for certain with :obj:`step_size="auto"`.

    The output is per node, or per graph with :obj:`readout`:
    :obj:`"cls"` adds one virtual node per graph, joined with all its nodes
    (:class:`ClassToken`), and reads it; anything else is an aggregation of
    PyG over the nodes. A batch of graphs gives what the graphs give alone.

    With :obj:`modulation_channels`, every edge gets a weight per head from
    the tokens at its ends, before the first step (:class:`EdgeModulation`).

    Args:
        in_channels (int): Size of the node features, or :obj:`-1` to derive
            it from the first input.
        hidden_channels (int): Size C of the tokens.
        out_channels (int): Size of the output.
        num_blocks (int, optional): Number of blocks S. (default: :obj:`2`)
        num_steps (int, optional): Steps T of a block. (default: :obj:`4`)
        heads (int, optional): Number of attention heads.
            (default: :obj:`4`)
        num_memories (int, optional): Number of memories of a block.
            (default: :obj:`4 * hidden_channels`)
        step_size (float or str, optional): Step size, :obj:`"learn"` or
            :obj:`"auto"`. (default: :obj:`0.1`)
        readout (str or Aggregation, optional): :obj:`"cls"`, the name of an
            aggregation that keeps the size of its input, such as
            :obj:`"mean"`, or an
            :class:`~torch_geometric.nn.aggr.Aggregation` of any output size.
            (default: :obj:`None`, one output per node)
        edge_dim (int, optional): Number of edge features.
            (default: :obj:`None`)
        modulation_channels (int, optional): Size M of the modulation.
            (default: :obj:`None`, no modulation)
        pe_channels (int, optional): Size of the positional encodings.
            (default: :obj:`None`)
        flip_signs (bool, optional): If set to :obj:`True`, the columns of
            the positional encodings get random signs in training, as
            eigenvectors should (:class:`RandomSigns`).
            (default: :obj:`False`)
        dropout (float, optional): Dropout of the embedding and before the
            linear map; the descent has none. (default: :obj:`0.`)
        **kwargs (optional): Additional arguments of
            :class:`~torch_energy_graph.nn.EnergyTransformerConv`.

    Shapes:
        - **input:** node features :math:`(N, F)`, edges :math:`(2, E)`,
          edge weights :math:`(E)` *(optional)*, edge features
          :math:`(E, D)` *(optional)*, encodings :math:`(N, P)` *(optional)*
        - **output:** :math:`(N, C_\mathrm{out})`, or
          :math:`(B, C_\mathrm{out})` with a readout
    """

    energy_contract = None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_blocks: int = 2,
        num_steps: int = 4,
        heads: int = 4,
        num_memories: Optional[int] = None,
        step_size: Union[float, str] = 0.1,
        readout: Union[str, Aggregation, None] = None,
        edge_dim: Optional[int] = None,
        modulation_channels: Optional[int] = None,
        pe_channels: Optional[int] = None,
        flip_signs: bool = False,
        dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__()
        if num_blocks < 1 or not 0 <= dropout <= 1:
            raise ValueError(
                f"'EnergyTransformer' expects num_blocks >= 1 and dropout in "
                f'[0, 1] (got {num_blocks} and {dropout})'
            )
        if kwargs.get('num_relations') is not None:
            raise ValueError(
                "'EnergyTransformer' has no relations; give one-hot "
                "'edge_attr' with 'edge_dim', or stack "
                "'EnergyTransformerConv' layers"
            )
        if flip_signs and pe_channels is None:
            raise ValueError(
                "'flip_signs' is about positional encodings; give "
                "'pe_channels'"
            )
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.edge_dim = edge_dim
        self.pe_channels = pe_channels
        self.dropout = dropout
        self.embedding = Linear(in_channels, hidden_channels)
        if pe_channels is not None:
            self.pe_embedding = Linear(
                pe_channels, hidden_channels, bias=False
            )
        else:
            self.register_module('pe_embedding', None)
        self.signs = RandomSigns() if flip_signs else None
        self.token = ClassToken(hidden_channels) if readout == 'cls' else None
        if modulation_channels is not None:
            self.modulation = EdgeModulation(
                hidden_channels, modulation_channels, edge_dim
            )
            edge_dim = modulation_channels
        else:
            self.register_module('modulation', None)
        self.blocks = ModuleList(
            EnergyTransformerConv(
                hidden_channels,
                heads=heads,
                num_memories=num_memories,
                num_steps=num_steps,
                step_size=step_size,
                edge_dim=edge_dim,
                **kwargs,
            )
            for _ in range(num_blocks)
        )
        self.readout = None
        if readout is not None and self.token is None:
            self.readout = aggregation_resolver(readout)
        # only an aggregation itself may have another size of output
        lazy = isinstance(readout, Aggregation)
        self.head = Linear(-1 if lazy else hidden_channels, out_channels)

    def reset_parameters(self):
        r"""Draws all weights anew."""
        for module in (*self.children(), *self.blocks):
            if hasattr(module, 'reset_parameters'):
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Adj,
        edge_weight: OptTensor = None,
        edge_attr: OptTensor = None,
        pe: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        return_trace: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, List[EnergyTrace]]]:
        r"""Returns one row per node, or per graph with a readout.

        Args:
            x (Tensor): Node features :math:`[N, F]`.
            edge_index (Adj or GraphCache): Edges from keys to queries.
            edge_weight (Tensor, optional): Weights :math:`w > 0`,
                :math:`[E]`.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
            pe (Tensor, optional): Positional encodings :math:`[N, P]`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`,
                in any order. (default: :obj:`None`, one graph)
            batch_size (int, optional): Number of graphs B; without it, the
                largest entry of :obj:`batch` is read from the device.
            return_trace (bool, optional): If set to :obj:`True`, also
                returns an :class:`~torch_energy_graph.dynamics.EnergyTrace`
                per block, with the energy of every graph. Virtual nodes come
                after the nodes. (default: :obj:`False`)
        """
        self._check(x, pe, batch)
        num_nodes, num_graphs = x.size(0), batch_size
        if batch is None:
            num_graphs = 1
        elif num_graphs is None:
            num_graphs = int(batch.max()) + 1 if num_nodes else 0
        x = self.embed(x, pe, batch, num_graphs)  # [N, C]
        edges = self._place_value(edge_index, edge_weight, edge_attr)
        graph = TokenGraph(x, *edges, batch, num_graphs)
        if self.token is not None:
            self._check_explainable()
            graph = self.token(graph, num_graphs)
        g, traces = self._descend(graph, return_trace)  # [N (+ B), C]
        if self.token is not None:
            g = g[num_nodes:]  # [B, C]
        elif self.readout is not None:
            index = batch
            if index is None:
                index = torch.zeros(
                    num_nodes, dtype=torch.long, device=x.device
                )
            g = self.readout(g, index, dim_size=num_graphs)
        out = self.head(F.dropout(g, self.dropout, self.training))
        return (out, traces) if return_trace else out

    def embed(
        self,
        x: Tensor,
        pe: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
    ) -> Tensor:
        r"""The first tokens :math:`x^0`, :math:`[N, C]`; the arguments are
        those of :meth:`forward`.
        """
        out = self.embedding(x)
        if pe is not None:
            if self.signs is not None:
                pe = self.signs(pe, batch, batch_size)
            out = out + self.pe_embedding(pe)
        return F.dropout(out, self.dropout, self.training)

    def _place_value(
        self, edge_index: Adj, edge_weight: OptTensor, edge_attr: OptTensor
    ) -> Tuple[Adj, OptTensor, OptTensor]:
        """Values of a sparse matrix are edge features or edge weights."""
        if is_sparse(edge_index):
            edge_index, value = coo_edges(edge_index)
            if edge_attr is None and edge_weight is None:
                if self.edge_dim is not None:
                    edge_attr = value
                else:
                    edge_weight = value
        if edge_attr is not None and edge_attr.dim() == 1:
            edge_attr = edge_attr.view(-1, 1)
        return edge_index, edge_weight, edge_attr

    def _descend(
        self, graph: TokenGraph, return_trace: bool
    ) -> Tuple[Tensor, List[EnergyTrace]]:
        """The last activations, and a trace per block if wanted."""
        x, edge_index, edge_weight, edge_attr, batch, batch_size = graph
        if self.modulation is not None:
            edge_attr = self.modulation(x, edge_index, edge_attr)
        # sorted once for all blocks
        cache = GraphCache.from_edge_index(edge_index, x.size(0))
        traces: List[EnergyTrace] = []
        for block in self.blocks:
            out = block(
                x,
                cache,
                edge_weight,
                edge_attr,
                batch=batch,
                batch_size=batch_size,
                return_trace=return_trace,
            )
            if return_trace:
                x, trace = out
                traces.append(trace)
            else:
                x = out
        return self.blocks[-1].norm(x), traces

    def _check(self, x: Tensor, pe: OptTensor, batch: OptTensor) -> None:
        if not isinstance(x, Tensor):
            raise ValueError(
                f"'{self.__class__.__name__}' does not support bipartite "
                f'input: its energies need one state per node (got '
                f'{type(x).__name__})'
            )
        if batch is not None and batch.shape != x.shape[:1]:
            raise ValueError(
                f"'batch' must name the graph of every node, "
                f'[{x.size(0)}] (got {list(batch.shape)})'
            )
        if (pe is None) != (self.pe_channels is None):
            raise ValueError(
                f"'{self.__class__.__name__}' takes 'pe' exactly when it was "
                f"built with 'pe_channels' (got "
                f'pe_channels={self.pe_channels})'
            )

    def _check_explainable(self) -> None:
        attentions = (
            module
            for module in self.modules()
            if isinstance(module, EnergyAttentionConv)
        )
        if any(module.explain for module in attentions):
            raise ValueError(
                'explainers give one weight per edge, which the edges of the '
                "virtual nodes of readout='cls' do not have; use an "
                'aggregation as readout'
            )

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, hidden_channels={self.hidden_channels}, '
            f'num_blocks={len(self.blocks)})'
        )
