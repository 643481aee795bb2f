"""A node among its neighbours, as a picture; needs matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from torch_energy_graph.extras import require

__all__ = ['draw_ego_graph']

_RAISES, _LOWERS = 'tab:red', 'tab:blue'


def draw_ego_graph(
    node: Any, neighbors: Sequence[dict[str, Any]], title: str, ax: Any = None
) -> Any:
    """Neighbours on a circle; the wider a line, the larger the effect.

    Args:
        node (Any): Id of the node in the middle.
        neighbors (sequence): With ``neighbor`` (id) and ``effect``: red lines
            raise the score, blue ones lower it.
        title (str): Above the picture.
        ax (matplotlib.axes.Axes, optional): Where to draw; on a new figure
            if :obj:`None`. (default: :obj:`None`)

    Raises:
        ImportError: If matplotlib is not installed.
    """
    ax = _new_axes() if ax is None else ax
    angle = 2 * np.pi * np.arange(len(neighbors)) / max(1, len(neighbors))
    largest = max((abs(row['effect']) for row in neighbors), default=0.0)
    scale = largest or 1.0
    for x, y, row in zip(np.cos(angle), np.sin(angle), neighbors, strict=True):
        effect = row['effect']
        ax.plot(
            [0, x],
            [0, y],
            color=_RAISES if effect > 0 else _LOWERS,
            linewidth=0.5 + 5 * abs(effect) / scale,
            zorder=1,
        )
        ax.annotate(
            f'{row["neighbor"]}\n{effect:+.3f}',
            (1.25 * x, 1.25 * y),
            ha='center',
            va='center',
            fontsize=8,
        )
    ax.scatter(np.cos(angle), np.sin(angle), s=80, color='lightgray', zorder=2)
    ax.scatter([0], [0], s=260, color='gold', edgecolor='black', zorder=2)
    ax.annotate(
        str(node), (0, 0), ha='center', va='center', fontsize=8, zorder=3
    )
    ax.set(title=title, xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect='equal')
    ax.set_axis_off()
    return ax


def _new_axes() -> Any:
    figure = require('matplotlib.figure', 'plot', 'pictures')
    # a figure that no window knows about
    return figure.Figure(figsize=(5, 5), layout='constrained').subplots()
