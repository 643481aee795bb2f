from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, ModuleList

from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor

from torch_energy_graph.nn.conv import DIFFormerConv

__all__ = ['DIFFormer']


class DIFFormer(torch.nn.Module):
    r"""The model of the `"DIFFormer: Scalable (Graph) Transformers Induced by
    Energy Constrained Diffusion" <https://arxiv.org/abs/2301.09474>`_ paper:
    an encoder, K diffusion layers and a linear head.

    .. math::
        z^0 = \mathrm{dropout}(\mathrm{ReLU}(\mathrm{norm}(W x + b))), \qquad
        z^{k+1} = \mathrm{dropout}(\mathrm{norm}(
            \alpha\, \mathrm{conv}_k(z^k) + (1 - \alpha)\, z^k))

    There is no activation between the layers. One graph is sorted once for
    all of them.

    Args:
        in_channels (int): Size of the input features, or :obj:`-1` to derive
            it from the first input.
        hidden_channels (int): Size of the state z.
        out_channels (int): Size of the output.
        num_layers (int, optional): Number of layers K. (default: :obj:`2`)
        heads (int, optional): Number of heads. (default: :obj:`1`)
        kernel (str, optional): :obj:`"simple"` (DIFFormer-s) or
            :obj:`"sigmoid"` (DIFFormer-a). (default: :obj:`"simple"`)
        normalize (str, optional): :obj:`"node"` (the paper) or
            :obj:`"global"` (the released code). (default: :obj:`"node"`)
        alpha (float, optional): Weight :math:`\alpha` of the new state.
            (default: :obj:`0.5`)
        dropout (float, optional): Dropout probability. (default: :obj:`0.`)
        use_graph (bool, optional): If set to :obj:`False`, edges are
            ignored. (default: :obj:`True`)
        graph_weight (float, optional): Weight of the graph term in
            :math:`[0, 1]`. (default: :obj:`None`, the sum of both terms)
        use_value (bool, optional): If set to :obj:`False`, layers have no
            value map. (default: :obj:`True`)
        use_source (bool, optional): If set to :obj:`True`, :math:`z^0` is
            added to the output of every layer. (default: :obj:`False`)
        use_norm (bool, optional): If set to :obj:`False`, there is no layer
            norm. (default: :obj:`True`)
        use_residual (bool, optional): If set to :obj:`False`,
            :math:`\alpha` is 1. (default: :obj:`True`)
        **kwargs (optional): Additional arguments of
            :class:`~torch_energy_graph.nn.DIFFormerConv`.

    Shapes:
        - **input:** node features :math:`(N, C_\mathrm{in})`, edges
          :math:`(2, E)` *(optional)*, edge weights :math:`(E)` *(optional)*
        - **output:** :math:`(N, C_\mathrm{out})`
    """

    energy_contract = None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        heads: int = 1,
        kernel: str = 'simple',
        normalize: str = 'node',
        alpha: float = 0.5,
        dropout: float = 0.0,
        use_graph: bool = True,
        graph_weight: Optional[float] = None,
        use_value: bool = True,
        use_source: bool = False,
        use_norm: bool = True,
        use_residual: bool = True,
        **kwargs,
    ):
        super().__init__()
        if num_layers < 1 or not 0 <= alpha <= 1 or not 0 <= dropout <= 1:
            raise ValueError(
                f"'DIFFormer' expects num_layers >= 1, and alpha and dropout "
                f'in [0, 1] (got {num_layers}, {alpha} and {dropout})'
            )
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.num_layers = num_layers
        self.alpha = alpha if use_residual else 1.0
        self.dropout = dropout
        self.use_graph = use_graph
        self.use_source = use_source
        self.encoder = Linear(in_channels, hidden_channels)
        self.convs = ModuleList(
            DIFFormerConv(
                hidden_channels,
                hidden_channels,
                heads,
                kernel,
                normalize,
                graph_weight,
                use_graph,
                use_value,
                **kwargs,
            )
            for _ in range(num_layers)
        )
        num_norms = num_layers + 1 if use_norm else 0
        self.norms = ModuleList(
            LayerNorm(hidden_channels) for _ in range(num_norms)
        )
        self.head = Linear(hidden_channels, out_channels)

    def reset_parameters(self):
        r"""Draws all weights anew."""
        for module in (self.encoder, *self.convs, *self.norms, self.head):
            module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Optional[Adj] = None,
        edge_weight: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
    ) -> Tensor:
        r"""Returns one row per node, :math:`[N, C_\mathrm{out}]`.

        Args:
            x (Tensor): Node features :math:`[N, C_\mathrm{in}]`.
            edge_index (Adj or GraphCache, optional): Edges; needed unless
                :obj:`use_graph=False`.
            edge_weight (Tensor, optional): Edge weights :math:`[E]`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`,
                in any order. (default: :obj:`None`, one graph)
            batch_size (int, optional): Number of graphs; without it, the
                largest entry of :obj:`batch` is read from the device.
        """
        return self.head(
            self.embed(x, edge_index, edge_weight, batch, batch_size)
        )

    def embed(
        self,
        x: Tensor,
        edge_index: Optional[Adj] = None,
        edge_weight: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
    ) -> Tensor:
        r"""The last state :math:`z^K`, :math:`[N, C_\mathrm{hidden}]`; same
        arguments as :meth:`forward`.
        """
        z = self._drop(self._norm(self.encoder(x), 0).relu())  # [N, C]
        edges = self._prepare(z, edge_index, edge_weight)
        source = z
        for k, conv in enumerate(self.convs):
            out = conv(z, edges, None, batch, batch_size)
            if self.use_source:
                out = out + source
            z = torch.lerp(z.to(out.dtype), out, self.alpha)
            z = self._drop(self._norm(z, k + 1))
        return z

    def _prepare(self, z, edge_index, edge_weight):
        """The edges for all layers."""
        if not self.use_graph:
            return None
        # one that is watched needs edges of the other form
        convs = sorted(self.convs, key=lambda conv: not conv.is_watched())
        return convs[0].prepare(z, edge_index, edge_weight)

    def _norm(self, z: Tensor, layer: int) -> Tensor:
        return self.norms[layer](z) if len(self.norms) else z

    def _drop(self, z: Tensor) -> Tensor:
        return F.dropout(z, self.dropout, self.training)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.hidden_channels}, {self.out_channels}, '
            f'num_layers={self.num_layers})'
        )
