"""The peer of the image table: one block of a vision transformer."""

import torch
from torch.nn import Parameter
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from torch_energy_graph.nn.encoding.grid_positions import GridPositions
from torch_energy_graph.nn.grid import (
    grid_shape,
    image_to_patches,
    pair_of,
    patches_to_image,
)


class OneBlockViT(torch.nn.Module):
    """Embedding, MASK token and positions as the energy transformer has them;
    then one pre-norm transformer block (GELU) and a norm before the decoder.
    """

    def __init__(
        self,
        image_size,
        patch_size,
        in_channels,
        hidden_channels,
        heads,
        feedforward,
    ):
        super().__init__()
        self.image_size = pair_of(image_size, 'image_size')
        self.patch_size = pair_of(patch_size, 'patch_size')
        width = in_channels * self.patch_size[0] * self.patch_size[1]
        self.encoder = torch.nn.Linear(width, hidden_channels)
        grid = grid_shape(self.image_size, self.patch_size)
        self.positions = GridPositions(*grid, hidden_channels, std=0.5)
        self.mask_token = Parameter(0.002 * torch.randn(hidden_channels))
        self.block = torch.nn.TransformerEncoderLayer(
            hidden_channels,
            heads,
            feedforward,
            dropout=0.0,
            activation='gelu',
            batch_first=True,
            norm_first=True,
        )
        self.norm = torch.nn.LayerNorm(hidden_channels)
        self.decoder = torch.nn.Linear(hidden_channels, width)

    def forward(self, images, mask):
        x = self.encoder(image_to_patches(images, self.patch_size))
        x = torch.where(mask.unsqueeze(-1), self.mask_token, x)
        x = self.block(x + self.positions())
        patches = self.decoder(self.norm(x))
        return patches_to_image(patches, self.image_size, self.patch_size)


def count_parameters(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def vit_of_size(num_parameters, **arguments):
    """The vision transformer whose size is next to a number of parameters;
    the width of its feed-forward part gives way.
    """
    sizes = [
        count_parameters(OneBlockViT(**arguments, feedforward=width))
        for width in (1, 2)
    ]
    per_unit = sizes[1] - sizes[0]
    width = 1 + round((num_parameters - sizes[0]) / per_unit)
    if width < 1:
        raise ValueError(
            f'no vision transformer of these sizes has {num_parameters} '
            f'parameters: the smallest has {sizes[0]}'
        )
    return OneBlockViT(**arguments, feedforward=width)


def multiply_adds(model, images, mask):
    """Multiply-adds of the matrix products for one image, forward pass.

    Attention is evaluated as products, which the counter sees.
    """
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        model(images, mask)
    return counter.get_total_flops() // (2 * len(images))
