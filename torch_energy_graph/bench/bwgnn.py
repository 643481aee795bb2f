r"""BWGNN: graph filters that are Beta wavelets.

From `"Rethinking Graph Neural Networks for Anomaly Detection"
<https://arxiv.org/abs/2205.15508>`_ (section 4). With the normalised
Laplacian :math:`L = I - D^{-1/2} A D^{-1/2}` and order C, the wavelets are

.. math::
    W_p = \frac{(L / 2)^p (I - L / 2)^{C - p}}{2 B(p + 1, C - p + 1)}
        = \frac{C + 1}{2} \binom{C}{p} (L / 2)^p (I - L / 2)^{C - p},
    \qquad p = 0, \dots, C.

They are used here without the common factor :math:`(C + 1) / 2`, which the
next linear layer can hold: then their sum is the identity.
"""

from math import comb

import torch
from torch import Tensor

from torch_geometric.nn import MLP

__all__ = ['BWGNN', 'beta_coefficients']


class BWGNN(torch.nn.Module):
    """An MLP, all wavelets of its output side by side, and another MLP.

    Args:
        in_channels (int): Number of node features.
        hidden_channels (int): Width.
        order (int, optional): C; there are C + 1 wavelets.
            (default: :obj:`2`)
        dropout (float, optional): Dropout of both MLPs.
            (default: :obj:`0.`)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        order: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = MLP(
            [in_channels, hidden_channels, hidden_channels],
            dropout=dropout,
            norm=None,
            plain_last=False,
        )
        self.head = MLP(
            [(order + 1) * hidden_channels, hidden_channels, 1],
            dropout=dropout,
            norm=None,
        )
        self.coefficients: Tensor
        self.register_buffer('coefficients', beta_coefficients(order))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits :math:`[N, 1]`.

        Args:
            x (Tensor): Node features :math:`[N, F]`.
            edge_index (Tensor): The normalised adjacency matrix without
                added self-loops, sparse :math:`[N, N]`.
        """
        h = self.wavelets(self.embedding(x), edge_index)  # [N, C + 1, H]
        out: Tensor = self.head(h.flatten(1))
        return out

    def wavelets(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """Return all wavelets of the columns of h, :math:`[N, C + 1, H]`."""
        powers = [h]  # (L / 2)^k h
        for _ in range(len(self.coefficients) - 1):
            powers.append((powers[-1] - adjacency @ powers[-1]) / 2)
        stacked = torch.stack(powers, dim=1)
        return torch.einsum('pk,nkh->nph', self.coefficients, stacked)


def beta_coefficients(order: int) -> Tensor:
    r"""Return wavelets as polynomials in L / 2, ``[C + 1, C + 1]``.

    Row p holds :math:`\binom{C}{p} x^p (1 - x)^{C - p}`, lowest power first.
    """
    if order < 1:
        raise ValueError(f"'BWGNN' expects order >= 1 (got {order})")
    rows = torch.zeros(order + 1, order + 1)
    for p in range(order + 1):
        for j in range(order - p + 1):
            rows[p, p + j] = comb(order, p) * comb(order - p, j) * (-1) ** j
    return rows
