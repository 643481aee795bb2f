"""Whole figures, for files; need matplotlib (extra ``plot``)."""

from __future__ import annotations

import io
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from torch_energy_graph.extras import require
from torch_energy_graph.nn.models.image_descent import record_descent
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)
from torch_energy_graph.plot.image import (
    plot_completion,
    plot_contributions,
    plot_descent_energy,
    plot_memories,
    plot_position_similarity,
    plot_shares,
)

__all__ = ['image_figures', 'new_figure', 'png_bytes']


def image_figures(
    model: ImageEnergyTransformer, images: Tensor, mask: Tensor
) -> dict[str, Any]:
    r"""All pictures of a model at work.

    Args:
        model (ImageEnergyTransformer): A model in eval mode.
        images (Tensor): True images :math:`[B, c, H, W]`.
        mask (Tensor): Hidden patches, bool :math:`[B, R S]`.

    Returns:
        dict: Figures of matplotlib: ``completion``, ``descent`` (shares of
        the updates of hidden tokens, and energies), ``contributions``,
        ``memories`` and ``positions``.
    """
    record = record_descent(model, images, mask)
    tokens = mask if model.cls is None else F.pad(mask, (1, 0), value=False)
    figures = {
        'completion': new_figure(7, 1 + len(images)),
        'descent': new_figure(8, 3),
        'contributions': new_figure(8, 2),
        'memories': new_figure(6, 2.5),
        'positions': new_figure(4, 4),
    }
    plot_completion(
        model, images, mask, record, ax=figures['completion'].subplots()
    )
    left, right = figures['descent'].subplots(1, 2)
    plot_shares(record, tokens, left)
    plot_descent_energy(record, right)
    plot_contributions(model, record, ax=figures['contributions'].subplots())
    plot_memories(model, ax=figures['memories'].subplots())
    plot_position_similarity(model, figures['positions'].subplots())
    return figures


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches that no window knows about."""
    module = require('matplotlib.figure', 'plot', 'pictures')
    return module.Figure(figsize=(width, height), layout='constrained')


def png_bytes(figure: Any, dpi: int = 100) -> bytes:
    """A figure as the bytes of a PNG file, the same for the same figure."""
    file = io.BytesIO()
    # without the version of matplotlib
    figure.savefig(file, format='png', dpi=dpi, metadata={'Software': None})
    return file.getvalue()
