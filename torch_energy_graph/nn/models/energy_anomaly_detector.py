from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.models import MLP
from torch_geometric.typing import Adj, OptTensor

from torch_energy_graph.dynamics import EnergyTrace
from torch_energy_graph.nn.conv import EnergyTransformerConv

__all__ = ['EnergyAnomalyDetector']


class EnergyAnomalyDetector(torch.nn.Module):
    r"""Supervised anomaly detection on the nodes of a graph, from the
    `"Energy Transformer" <https://arxiv.org/abs/2302.07253>`_ paper (eq. 10
    to 12).

    .. math::
        x^1_i = E y_i + \lambda_i, \qquad
        x^T = \mathrm{block}(x^1), \qquad
        s_i = \mathrm{MLP}\big( [g^1_i \,\Vert\, g^T_i] \big), \quad
        g = \mathrm{norm}(x)

    Node features y are embedded, optional positional encodings
    :math:`\lambda` (from PyG's ``AddLaplacianEigenvectorPE`` or
    ``AddRandomWalkPE``) are added, one recurrent
    :class:`~torch_energy_graph.nn.EnergyTransformerConv` runs T steps, and
    the normalised first and last tokens are read by an MLP with one logit:
    :math:`\mathrm{sigmoid}(s_i)` is the probability of an anomaly.

    Args:
        in_channels (int): Number of node features, or :obj:`-1`.
        hidden_channels (int, optional): Width of the tokens.
            (default: :obj:`64`)
        heads (int, optional): Number of attention heads.
            (default: :obj:`4`)
        head_channels (int, optional): Channels of a head.
            (default: :obj:`hidden_channels // heads`)
        num_memories (int, optional): Number of memories.
            (default: :obj:`4 * hidden_channels`)
        num_steps (int, optional): Number of steps T. (default: :obj:`4`)
        step_size (float or str, optional): Step size, :obj:`"learn"` or
            :obj:`"auto"`. (default: :obj:`0.1`)
        dropout (float, optional): Dropout of the embedding and in the MLP;
            the descent itself has none. (default: :obj:`0.`)
        embedding_layers (int, optional): Layers of the embedding E; from
            two on, it is an MLP of width :obj:`hidden_channels` with batch
            normalisation and ReLU.
            (default: :obj:`1`)
        pe_channels (int, optional): Size of the positional encodings.
            (default: :obj:`None`)
        side_channels (int, optional): Size of node features that the head
            reads but the energy does not, for what must not pass along
            edges, such as the labels of a node's neighbours.
            (default: :obj:`None`)
        checkpoint (bool, optional): Recompute the steps in the backward
            pass. (default: :obj:`False`)
        **kwargs (optional): Additional arguments of
            :class:`~torch_energy_graph.nn.EnergyTransformerConv`.

    Shapes:
        - **input:** node features :math:`(N, F)`, edges :math:`(2, E)`,
          encodings :math:`(N, P)` *(optional)*
        - **output:** logits :math:`(N)`
    """

    energy_contract = None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        heads: int = 4,
        head_channels: Optional[int] = None,
        num_memories: Optional[int] = None,
        num_steps: int = 4,
        step_size: Union[float, str] = 0.1,
        dropout: float = 0.0,
        embedding_layers: int = 1,
        pe_channels: Optional[int] = None,
        side_channels: Optional[int] = None,
        checkpoint: bool = False,
        **kwargs,
    ):
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.pe_channels = pe_channels
        self.side_channels = side_channels
        self.dropout = dropout
        if embedding_layers < 1:
            raise ValueError(
                f"'{self.__class__.__name__}' expects 'embedding_layers' >= 1 "
                f'(got {embedding_layers})'
            )
        if embedding_layers == 1:
            self.embedding = Linear(in_channels, hidden_channels)
        else:
            widths = [hidden_channels] * embedding_layers
            self.embedding = MLP(
                [in_channels, *widths],
                dropout=dropout,
                norm='batch_norm',
                plain_last=False,
            )
        if pe_channels is not None:
            self.pe_embedding = Linear(pe_channels, hidden_channels)
        else:
            self.register_module('pe_embedding', None)
        self.block = EnergyTransformerConv(
            hidden_channels,
            hidden_channels,
            heads=heads,
            head_channels=head_channels,
            num_memories=num_memories,
            num_steps=num_steps,
            step_size=step_size,
            checkpoint=checkpoint,
            **kwargs,
        )
        self.head = MLP(
            [2 * hidden_channels + (side_channels or 0), hidden_channels, 1],
            dropout=dropout,
            norm=None,
        )

    def reset_parameters(self):
        r"""Draws all weights anew."""
        for module in self.children():
            module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Adj,
        pe: OptTensor = None,
        edge_weight: OptTensor = None,
        edge_attr: OptTensor = None,
        edge_type: OptTensor = None,
        side: OptTensor = None,
        return_trace: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, EnergyTrace]]:
        r"""Returns the logit of every node.

        Args:
            x (Tensor): Node features :math:`[N, F]`.
            edge_index (Adj or GraphCache): Edges.
            pe (Tensor, optional): Positional encodings :math:`[N, P]`.
            edge_weight (Tensor, optional): Weights :math:`w > 0`,
                :math:`[E]`.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
            edge_type (LongTensor, optional): Relations :math:`[E]`.
            side (Tensor, optional): Features of the head :math:`[N, S]`.
            return_trace (bool, optional): If set to :obj:`True`, also
                returns the trace of the descent.
        """
        self._check_given('side', side, self.side_channels)
        first = self.embed(x, pe)  # x^1 [N, C]
        out = self.block(
            first,
            edge_index,
            edge_weight,
            edge_attr,
            edge_type,
            return_trace=return_trace,
        )
        last, trace = out if return_trace else (out, None)
        tokens = [self.block.norm(first), self.block.norm(last)]
        if side is not None:
            tokens.append(side)
        logits = self.head(torch.cat(tokens, dim=-1)).squeeze(-1)  # [N]
        return logits if trace is None else (logits, trace)

    def embed(self, x: Tensor, pe: OptTensor = None) -> Tensor:
        r"""The first token :math:`x^1`, :math:`[N, C]`.

        Args:
            x (Tensor): Node features :math:`[N, F]`.
            pe (Tensor, optional): Positional encodings :math:`[N, P]`.
        """
        self._check_given('pe', pe, self.pe_channels)
        out = self.embedding(x)
        if pe is not None:
            out = out + self.pe_embedding(pe)
        return F.dropout(out, self.dropout, self.training)

    def _check_given(
        self, name: str, value: OptTensor, channels: Optional[int]
    ) -> None:
        if (value is None) != (channels is None):
            raise ValueError(
                f"'{self.__class__.__name__}' takes '{name}' exactly when it "
                f"was built with '{name}_channels' (got "
                f'{name}_channels={channels})'
            )

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.hidden_channels}, block={self.block})'
        )
