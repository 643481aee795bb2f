import math

import torch
from torch import Tensor
from torch.nn import Parameter

__all__ = ['PeriodicEncoding']


class PeriodicEncoding(torch.nn.Module):
    r"""Periodic encoding of numerical features, from the `"On Embeddings for
    Numerical Features in Tabular Deep Learning"
    <https://arxiv.org/abs/2203.05556>`_ paper (``PLR``).

    .. math::
        v = 2 \pi c_f x_f, \qquad
        z_f = \mathrm{ReLU}\big( W_f [\sin v \,\Vert\, \cos v] + b_f \big)

    Every feature f has its own learned frequencies :math:`c_f` and weights
    :math:`W_f`. Scale the features first, so that one :obj:`sigma` fits all.

    Args:
        in_channels (int): Number of features F.
        channels (int, optional): Channels C of the encoding of a feature.
            (default: :obj:`8`)
        num_frequencies (int, optional): Frequencies per feature.
            (default: :obj:`16`)
        sigma (float, optional): Standard deviation of the frequencies at the
            start. (default: :obj:`0.1`)

    Shapes:
        - **input:** features :math:`(N, F)`
        - **output:** encodings :math:`(N, F C)`

    Example:
        >>> PeriodicEncoding(3, channels=8)(torch.zeros(5, 3)).shape
        torch.Size([5, 24])
    """

    def __init__(
        self,
        in_channels: int,
        channels: int = 8,
        num_frequencies: int = 16,
        sigma: float = 0.1,
    ):
        super().__init__()
        if min(in_channels, channels, num_frequencies) < 1 or not sigma > 0:
            raise ValueError(
                f"'PeriodicEncoding' expects in_channels, channels and "
                f'num_frequencies >= 1 and sigma > 0 (got {in_channels}, '
                f'{channels}, {num_frequencies} and {sigma})'
            )
        self.in_channels = in_channels
        self.channels = channels
        self.num_frequencies = num_frequencies
        self.sigma = sigma
        self.frequency = Parameter(torch.empty(in_channels, num_frequencies))
        self.weight = Parameter(
            torch.empty(in_channels, 2 * num_frequencies, channels)
        )
        self.bias = Parameter(torch.empty(in_channels, channels))
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws frequencies and weights anew."""
        torch.nn.init.normal_(self.frequency, std=self.sigma)
        bound = 1 / math.sqrt(2 * self.num_frequencies)
        torch.nn.init.uniform_(self.weight, -bound, bound)
        torch.nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        r"""Encodes every feature by itself.

        Args:
            x (Tensor): Features :math:`[N, F]`.
        """
        if x.dim() != 2 or x.size(1) != self.in_channels:
            raise ValueError(
                f"'{self.__class__.__name__}' expects features of shape "
                f'[N, {self.in_channels}] (got {list(x.shape)})'
            )
        v = 2 * math.pi * self.frequency * x.unsqueeze(-1)  # [N, F, K]
        waves = torch.cat([v.sin(), v.cos()], dim=-1)  # [N, F, 2K]
        z = torch.einsum('nfk,fkc->nfc', waves, self.weight) + self.bias
        return z.relu().flatten(1)  # [N, FC]

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'channels={self.channels}, '
            f'num_frequencies={self.num_frequencies})'
        )
