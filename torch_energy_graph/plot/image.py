"""Pictures of a completion: what is seen, moved, remembered and placed.

Every function draws into given axes, or into new ones, and returns them;
nothing is shown or saved. They need matplotlib (extra ``plot``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_energy_graph.extras import require
from torch_energy_graph.nn.grid import patches_to_image
from torch_energy_graph.nn.models.image_descent import ImageDescent
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)

__all__ = [
    'label_columns',
    'mosaic',
    'plot_completion',
    'plot_contributions',
    'plot_descent_energy',
    'plot_images',
    'plot_memories',
    'plot_position_similarity',
    'plot_shares',
]

_GREY = 0.5  # of what is hidden


def mosaic(images: Tensor, columns: int, fill: float = 1.0) -> Tensor:
    r"""Images side by side, with lines of one pixel between them.

    Args:
        images (Tensor): :math:`[n, c, H, W]`.
        columns (int): Images of a row.
        fill (float, optional): Value of the lines, and of places without an
            image. (default: :obj:`1.0`)

    Returns:
        Tensor: :math:`[c, H', W']`.
    """
    if images.dim() != 4 or len(images) == 0 or columns < 1:
        raise ValueError(
            f'expected images [n, c, H, W] and columns >= 1 (got '
            f'{list(images.shape)} and {columns})'
        )
    count, channels, height, width = images.shape
    rows = -(-count // columns)
    tiles = images.new_full(
        (rows * columns, channels, height + 1, width + 1), fill
    )
    tiles[:count, :, 1:, 1:] = images
    grid = tiles.view(rows, columns, channels, height + 1, width + 1)
    grid = grid.permute(2, 0, 3, 1, 4).flatten(3).flatten(1, 2)
    return torch.nn.functional.pad(grid, (0, 1, 0, 1), value=fill)


def plot_images(
    images: Tensor,
    columns: int,
    ax: Any = None,
    limits: tuple[float, float] | None = (0.0, 1.0),
    cmap: str = 'gray',
) -> Any:
    r"""Draws images side by side.

    Args:
        images (Tensor): :math:`[n, c, H, W]`, c = 1 or 3.
        columns (int): Images of a row.
        ax (matplotlib.axes.Axes, optional): Where to draw.
            (default: new axes)
        limits (tuple, optional): Values of black and white; if
            :obj:`None`, the largest absolute value sets both, so that zero
            is in the middle. (default: :obj:`(0.0, 1.0)`)
        cmap (str, optional): Colours of images with one channel.
            (default: :obj:`"gray"`)

    Returns:
        matplotlib.axes.Axes: The axes.
    """
    if images.size(1) not in (1, 3):
        raise ValueError(
            f'expected images with 1 or 3 channels (got {images.size(1)}); '
            f'choose some of them'
        )
    ax = _axes(ax)
    images = images.detach().float().cpu()
    if limits is None:
        top = max(float(images.abs().max()), 1e-12)
        limits = (-top, top)
    low, high = limits
    fill = high if cmap == 'gray' else 0.0
    picture = mosaic(images, columns, fill)
    if picture.size(0) == 1:
        ax.imshow(picture[0].numpy(), cmap=cmap, vmin=low, vmax=high)
    else:
        picture = (picture - low) / (high - low)
        ax.imshow(picture.clamp(0, 1).permute(1, 2, 0).numpy())
    ax.set_axis_off()
    return ax


def label_columns(ax: Any, names: Sequence[str]) -> Any:
    """Writes a name above every column of a picture of images.

    Args:
        ax (matplotlib.axes.Axes): Axes of :func:`plot_images`.
        names (sequence of str): As many as columns.
    """
    left, right = ax.get_xlim()
    width = (right - left) / len(names)
    for column, name in enumerate(names):
        place = left + (column + 0.5) * width
        ax.text(place, -0.5, name, ha='center', va='bottom', fontsize=7)
    return ax


def plot_completion(
    model: ImageEnergyTransformer,
    images: Tensor,
    mask: Tensor,
    record: ImageDescent,
    steps: Sequence[int] | None = None,
    ax: Any = None,
) -> Any:
    r"""Draws images row by row: as the model saw them, after steps, the truth.

    Args:
        model (ImageEnergyTransformer): The model that was recorded.
        images (Tensor): The true images :math:`[B, c, H, W]`.
        mask (Tensor): Hidden patches, bool.
        record (ImageDescent): From
            :func:`~torch_energy_graph.nn.models.image_descent.
            record_descent` on the same images.
        steps (sequence of int, optional): Numbers of steps after which to
            look. (default: five between none and all)
        ax (matplotlib.axes.Axes, optional): Where to draw.
            (default: new axes)
    """
    last = len(record.states) - 1
    if steps is None:
        steps = sorted({round(last * part / 4) for part in range(5)})
    seen = images.masked_fill(model.hidden_pixels(mask, len(images)), _GREY)
    frames = record.images(model)
    shown = [seen, *(frames[step] for step in steps), images]
    columns = torch.stack(shown, dim=1)  # [B, F, c, H, W]
    ax = plot_images(columns.flatten(0, 1), columns.size(1), ax)
    names = ['seen', *(f'step {step}' for step in steps), 'truth']
    return label_columns(ax, names)


def plot_shares(
    record: ImageDescent, mask: Tensor | None = None, ax: Any = None
) -> Any:
    r"""Draws the shares of attention and memories in every step's update.

    Args:
        record (ImageDescent): A recorded descent.
        mask (Tensor, optional): Tokens that count, bool :math:`[B, N]`.
        ax (matplotlib.axes.Axes, optional): Where to draw.
            (default: new axes)
    """
    ax = _axes(ax)
    share = record.shares(mask).float().cpu().numpy()
    steps = range(1, len(share) + 1)
    ax.plot(steps, share, marker='o', label='attention')
    ax.plot(steps, 1 - share, marker='s', label='memories')
    ax.set_ylim(0, 1)
    ax.set_xlabel('step')
    ax.set_ylabel('share of the update')
    ax.legend()
    return ax


def plot_descent_energy(record: ImageDescent, ax: Any = None) -> Any:
    r"""Draws the energies of attention and of memories, means over images.

    Both start at zero: what counts is how far each falls.

    Args:
        record (ImageDescent): A recorded descent.
        ax (matplotlib.axes.Axes, optional): Where to draw.
            (default: new axes)
    """
    ax = _axes(ax)
    curves = {
        'attention': record.attention_energy,
        'memories': record.memory_energy,
        'sum': record.attention_energy + record.memory_energy,
    }
    for label, energy in curves.items():
        mean = energy.mean(1).float().cpu().numpy()  # [T + 1]
        ax.plot(range(len(mean)), mean - mean[0], label=label)
    ax.set_xlabel('step')
    ax.set_ylabel('change of the energy')
    ax.legend()
    return ax


def plot_contributions(
    model: ImageEnergyTransformer,
    record: ImageDescent,
    image: int = 0,
    ax: Any = None,
) -> Any:
    r"""Draws what attention and memories change in an image, step by step.

    Attention is the upper row; red is more, blue is less.

    Args:
        model (ImageEnergyTransformer): The model that was recorded.
        record (ImageDescent): A recorded descent.
        image (int, optional): Which image of the batch. (default: :obj:`0`)
        ax (matplotlib.axes.Axes, optional): Where to draw.
            (default: new axes)
    """
    parts = record.contributions(model)
    rows = torch.cat([part[:, image] for part in parts])  # [2 T, c, H, W]
    rows = rows.mean(1, keepdim=True)  # colours are averaged
    ax = plot_images(rows, len(rows) // 2, ax, None, 'RdBu_r')
    ax.set_title('attention (above), memories (below)', fontsize=8)
    return ax


def plot_memories(
    model: ImageEnergyTransformer,
    count: int = 64,
    columns: int = 16,
    ax: Any = None,
) -> Any:
    r"""Draws memories as patches: the decoder's weight times a memory.

    Those of the largest norm come first.

    Args:
        model (ImageEnergyTransformer): A model.
        count (int, optional): Number of memories. (default: :obj:`64`)
        columns (int, optional): Memories of a row. (default: :obj:`16`)
        ax (matplotlib.axes.Axes, optional): Where to draw.
            (default: new axes)
    """
    memories = model.block.memory.memories.detach()  # [K, C]
    order = memories.norm(dim=1).argsort(descending=True)[:count]
    patches = memories[order] @ model.decoder.weight.detach().t()  # [n, P]
    tiles = patches_to_image(
        patches.unsqueeze(1), model.patch_size, model.patch_size
    )
    tiles = tiles.mean(1, keepdim=True)
    # each on its own scale: the question is their form
    tiles = tiles / tiles.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-12)
    return plot_images(tiles, columns, ax, None, 'RdBu_r')


def plot_position_similarity(
    model: ImageEnergyTransformer, ax: Any = None
) -> Any:
    r"""Draws a map per patch: the cosines of its position vector and all.

    Args:
        model (ImageEnergyTransformer): A model.
        ax (matplotlib.axes.Axes, optional): Where to draw.
            (default: new axes)
    """
    rows, cols = model.grid
    table = model.positions().detach()[-rows * cols :]  # no class token
    table = torch.nn.functional.normalize(table, dim=1)
    maps = (table @ table.t()).view(-1, 1, rows, cols)
    return plot_images(maps, cols, ax, (-1.0, 1.0), 'RdBu_r')


def _axes(ax: Any) -> Any:
    if ax is None:
        _, ax = require('matplotlib.pyplot', 'plot', 'pictures').subplots()
    return ax
