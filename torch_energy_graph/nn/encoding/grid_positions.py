from typing import Optional

import torch
from torch import Tensor
from torch.nn import Parameter

__all__ = ['GridPositions']


class GridPositions(torch.nn.Module):
    r"""Position vectors of the patches of an image, in rows.

    Either a learned table, from :math:`\mathcal{N}(0, \mathrm{std}^2)`, as in
    the `"Energy Transformer" <https://arxiv.org/abs/2302.07253>`_ paper, or
    fixed waves: the first half of the channels encodes the row r, the second
    the column, each with

    .. math::
        \big[ \sin(r\, \omega_f) \,\Vert\, \cos(r\, \omega_f) \big], \qquad
        \omega_f = 10000^{-f / F}, \quad f = 0, \dots, F - 1,
        \quad F = C / 4

    Args:
        rows (int): Rows R of the grid.
        cols (int): Columns S.
        channels (int): Channels C.
        kind (str, optional): :obj:`"learned"` or :obj:`"sinusoidal"`.
            (default: :obj:`"learned"`)
        cls_token (bool, optional): Whether a vector for the class token comes
            first; it is zero among waves. (default: :obj:`False`)
        std (float, optional): Deviation of a learned table at the start.
            (default: :obj:`0.002`)

    Shapes:
        - **output:** :math:`(R S, C)`, one more row with :obj:`cls_token`
    """

    def __init__(
        self,
        rows: int,
        cols: int,
        channels: int,
        kind: str = 'learned',
        cls_token: bool = False,
        std: float = 0.002,
    ):
        super().__init__()
        if kind not in ('learned', 'sinusoidal'):
            raise ValueError(
                f"'GridPositions' expects kind 'learned' or 'sinusoidal' "
                f'(got {kind!r})'
            )
        if kind == 'sinusoidal' and channels % 4:
            raise ValueError(
                f"'GridPositions' with waves expects channels divisible by 4 "
                f'(got {channels})'
            )
        self.rows = rows
        self.cols = cols
        self.channels = channels
        self.kind = kind
        self.cls_token = cls_token
        self.std = std
        if kind == 'learned':
            size = rows * cols + int(cls_token)
            self.table = Parameter(torch.empty(size, channels))
        else:
            waves = _waves(rows, cols, channels, cls_token)
            self.register_buffer('table', waves, persistent=False)
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws a learned table anew."""
        if self.kind == 'learned':
            torch.nn.init.normal_(self.table, std=self.std)

    def forward(self, pos: Optional[Tensor] = None) -> Tensor:
        r"""Position vectors of all tokens, or of some.

        Args:
            pos (Tensor, optional): Row and column of every token,
                :math:`[N, 2]`, and :math:`(-1, -1)` for the class token.
        """
        if pos is None:
            return self.table
        index = pos.round().long()
        is_cls = (index == -1).all(-1) & self.cls_token  # [N]
        size = index.new_tensor([self.rows, self.cols])
        inside = ((index >= 0) & (index < size)).all(-1)
        if not bool((inside | is_cls).all()):
            wrong = pos[~(inside | is_cls)][0].tolist()
            raise ValueError(
                f"'pos' must be rows and columns of a grid of {self.rows} x "
                f'{self.cols} patches, or (-1, -1) for the class token of a '
                f'model that has one (got {wrong})'
            )
        index = index[:, 0] * self.cols + index[:, 1] + int(self.cls_token)
        return self.table[index.masked_fill(is_cls, 0)]

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.rows}, {self.cols}, '
            f'{self.channels}, kind={self.kind!r})'
        )


def _waves(rows: int, cols: int, channels: int, cls_token: bool) -> Tensor:
    quarter = channels // 4
    frequency = 10000.0 ** (-torch.arange(quarter) / max(quarter, 1))

    def encode(count: int) -> Tensor:  # [count, C / 2]
        angle = torch.arange(count).unsqueeze(1) * frequency
        return torch.cat([angle.sin(), angle.cos()], dim=1)

    row = encode(rows).repeat_interleave(cols, dim=0)
    table = torch.cat([row, encode(cols).repeat(rows, 1)], dim=1)
    if cls_token:
        table = torch.cat([table.new_zeros(1, channels), table])
    return table
