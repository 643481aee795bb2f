r"""Which patches a model does not see, and which its loss is about.

As in the code of the Energy Transformer, about half of the tokens are in the
loss, and a few of them are left visible, so that a model also learns to keep
what it sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor

__all__ = ['BoxMasking', 'Masking', 'Masks', 'ScatterMasking']


class Masks(NamedTuple):
    """Patches of images, bool :math:`[B, N]`.

    Attributes:
        loss: Those whose pixels are in the loss.
        hidden: Those that the model does not see; a part of :obj:`loss`.
    """

    loss: Tensor
    hidden: Tensor


class Masking(Protocol):
    """Draws masks for images with a grid of patches."""

    def __call__(
        self, batch_size: int, grid: tuple[int, int], generator: Generator
    ) -> Masks:
        """Draw the masks of so many images."""


@dataclass(frozen=True)
class ScatterMasking:
    r"""Random patches, as many in every image.

    Of N patches, :math:`\mathrm{round}(\mathrm{ratio} \cdot N)` are in the
    loss, and the share :obj:`visible` of these stays visible.

    Args:
        ratio (float, optional): Share of patches in the loss.
            (default: :obj:`0.5`)
        visible (float, optional): Share of these that stay visible, 0.1 in
            the released code. (default: :obj:`0.1`)

    Example:
        >>> masking = ScatterMasking(0.5, visible=0.25)
        >>> masks = masking(2, (4, 4), torch.Generator())
        >>> masks.loss.sum(1), masks.hidden.sum(1)
        (tensor([8, 8]), tensor([6, 6]))
    """

    ratio: float = 0.5
    visible: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1 or not 0 <= self.visible < 1:
            raise ValueError(
                f"expected 0 < 'ratio' <= 1 and 0 <= 'visible' < 1 (got "
                f'{self.ratio} and {self.visible})'
            )

    def __call__(
        self, batch_size: int, grid: tuple[int, int], generator: Generator
    ) -> Masks:
        """Draw the masks of so many images."""
        num_patches = grid[0] * grid[1]
        count = max(round(self.ratio * num_patches), 1)
        hidden = max(count - round(self.visible * count), 1)
        order = torch.rand(batch_size, num_patches, generator=generator)
        rank = order.argsort(1).argsort(1)  # a permutation of each row
        return Masks(rank < count, rank < hidden)


@dataclass(frozen=True)
class BoxMasking:
    """One rectangle of patches, at a random place in every image.

    Args:
        rows (int): Height of the rectangle in patches.
        cols (int): Width in patches.
    """

    rows: int
    cols: int

    def __call__(
        self, batch_size: int, grid: tuple[int, int], generator: Generator
    ) -> Masks:
        """Draw the masks of so many images."""
        sizes = (self.rows, self.cols)
        if not all(1 <= a <= b for a, b in zip(sizes, grid, strict=True)):
            raise ValueError(
                f'expected a rectangle within {grid[0]} x {grid[1]} patches '
                f'(got {self.rows} x {self.cols})'
            )
        inside = []
        for length, total in zip(sizes, grid, strict=True):
            free = total - length + 1
            first = torch.randint(free, (batch_size, 1), generator=generator)
            place = torch.arange(total) - first  # [B, total]
            inside.append((place >= 0) & (place < length))
        box = (inside[0].unsqueeze(2) & inside[1].unsqueeze(1)).flatten(1)
        return Masks(box, box)
