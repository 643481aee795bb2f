from typing import Optional

import torch
from torch import Tensor
from torch.nn import Parameter

from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor

from torch_energy_graph.ops import coo_edges

__all__ = ['EdgeModulation']


class EdgeModulation(torch.nn.Module):
    r"""Features of edges from the tokens at their ends: the modulated
    adjacency of the `"Energy Transformer"
    <https://arxiv.org/abs/2302.07253>`_ paper, edge by edge.

    .. math::
        m_e = \mathrm{ReLU}\big( W x_i \odot W x_j + V a_e + b \big),
        \qquad e = (j, i)

    Given as :obj:`edge_attr` to
    :class:`~torch_energy_graph.nn.EnergyTransformerConv`, they weigh every
    edge by :math:`\hat A_e^h = \exp(u_h^\top m_e) > 0` in the energy

    .. math::
        E = -\sum_h \frac{1}{\beta_h} \sum_i \log \sum_{e = (j, i)}
        \hat A_e^h \exp \big( \beta_h\, q_i^\top k_j \big).

    They are made once, from the tokens in which a descent starts, so they
    are constants of this energy, and its gradient and its certified step
    stay as they are. The released code convolves the matrix
    :math:`x x^\top` with a 3x3 kernel, which depends on the numbering of the
    nodes, and loses non-edges once its bias is not zero; here every edge is
    treated alike, and what is not an edge stays none.

    Args:
        channels (int): Size C of the tokens.
        out_channels (int): Size M of the modulation.
        edge_dim (int, optional): Number of edge features :math:`a_e`.
            (default: :obj:`None`)

    Shapes:
        - **input:** tokens :math:`(N, C)`, edges :math:`(2, E)`, edge
          features :math:`(E, D)` *(optional)*
        - **output:** modulation :math:`(E, M)`
    """

    def __init__(
        self, channels: int, out_channels: int, edge_dim: Optional[int] = None
    ):
        super().__init__()
        if min(channels, out_channels) < 1:
            raise ValueError(
                f"'EdgeModulation' expects channels and out_channels >= 1 "
                f'(got {channels} and {out_channels})'
            )
        self.channels = channels
        self.out_channels = out_channels
        self.lin = Linear(
            channels, out_channels, bias=False, weight_initializer='glorot'
        )
        if edge_dim is not None:
            self.lin_edge = Linear(edge_dim, out_channels, bias=False)
        else:
            self.register_module('lin_edge', None)
        self.bias = Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws all weights anew."""
        self.lin.reset_parameters()
        if self.lin_edge is not None:
            self.lin_edge.reset_parameters()
        torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: Tensor, edge_index: Adj, edge_attr: OptTensor = None
    ) -> Tensor:
        r"""Returns one row per edge, in the caller's order.

        Args:
            x (Tensor): Tokens :math:`[N, C]`.
            edge_index (Adj or GraphCache): Edges.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
        """
        if (edge_attr is None) != (self.lin_edge is None):
            raise ValueError(
                f"'{self.__class__.__name__}' takes 'edge_attr' exactly when "
                f"it was built with 'edge_dim' (got edge_attr="
                f'{edge_attr if edge_attr is None else edge_attr.shape})'
            )
        (src, dst), _ = coo_edges(edge_index)
        ends = self.lin(x)  # [N, M]
        out = ends[dst] * ends[src] + self.bias  # [E, M]
        if edge_attr is not None:
            out = out + self.lin_edge(edge_attr)
        return out.relu()

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.channels}, {self.out_channels})'
        )
