from typing import Optional

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Conv2d, Linear, Module, Sequential

__all__ = ['WideResNet']


def _act(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.2)


class _Block(Module):
    r"""Two 3x3 convolutions after their activations, and a shortcut."""

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        self.conv1 = Conv2d(in_channels, out_channels, 3, padding=1)
        self.conv2 = Conv2d(
            out_channels, out_channels, 3, stride=stride, padding=1
        )
        self.shortcut: Optional[Conv2d] = None
        if stride != 1 or in_channels != out_channels:
            self.shortcut = Conv2d(in_channels, out_channels, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(_act(self.conv1(_act(x))))
        return out + (x if self.shortcut is None else self.shortcut(x))


class WideResNet(Module):
    r"""A `"Wide Residual Network" <https://arxiv.org/abs/1605.07146>`_
    without batch normalisation, as energy-based classifiers use it
    (`"Your Classifier is Secretly an Energy Based Model"
    <https://arxiv.org/abs/1912.03263>`_, `"Non-Generative Energy Based
    Models" <https://arxiv.org/abs/2304.01297>`_): the energy of an image then
    does not depend on the other images of its batch.

    A 3x3 convolution to 16 channels, three stages of
    :math:`(\mathrm{depth} - 4) / 6` blocks with :math:`16 k`, :math:`32 k`
    and :math:`64 k` channels, of which the last two halve the sides, LeakyReLU
    of slope 0.2, the mean over the image and a linear head. The papers' is
    :obj:`WideResNet(3, 10, depth=28, width=10)`.

    Args:
        in_channels (int): Channels of an image.
        out_channels (int): Number of classes K.
        depth (int, optional): 10, 16, 22, 28, ... (default: :obj:`10`)
        width (int, optional): :math:`k`. (default: :obj:`1`)

    Shapes:
        - **input:** images :math:`(B, C, H, W)`, sides of 4 or more
        - **output:** logits :math:`(B, K)`
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        depth: int = 10,
        width: int = 1,
    ):
        super().__init__()
        if depth < 10 or (depth - 4) % 6 or width < 1:
            raise ValueError(
                f"'WideResNet' expects a depth of 10, 16, 22, ... and width "
                f'>= 1 (got {depth} and {width})'
            )
        self.stem = Conv2d(in_channels, 16, 3, padding=1)
        channels, blocks = 16, []
        for stage in range(3):
            wide = 16 * width * 2**stage
            for block in range((depth - 4) // 6):
                stride = 2 if stage and block == 0 else 1
                blocks.append(_Block(channels, wide, stride))
                channels = wide
        self.blocks = Sequential(*blocks)
        self.head = Linear(channels, out_channels)

    def embed(self, x: Tensor) -> Tensor:
        r"""What the head reads, :math:`[B, 64 k]`."""
        return _act(self.blocks(self.stem(x))).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        r"""Returns logits :math:`[B, K]`.

        Args:
            x (Tensor): Images :math:`[B, C, H, W]`.
        """
        return self.head(self.embed(x))
