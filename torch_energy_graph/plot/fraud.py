"""Pictures of a detector's scores on labelled nodes; need matplotlib."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve, roc_curve

__all__ = [
    'plot_class_descent',
    'plot_precision_recall',
    'plot_reliability',
    'plot_roc',
]

Floats = NDArray[np.float64]


def plot_roc(y: NDArray[Any], scores: Mapping[str, Floats], ax: Any) -> Any:
    """Draw anomalies found over false alarms.

    Args:
        y (ndarray): Labels 0 or 1, both present, [N].
        scores (Mapping): By the name of the model, scores [N].
        ax (matplotlib.axes.Axes): Where to draw.
    """
    for name, score in scores.items():
        false_alarms, found, _ = roc_curve(y, score)
        ax.plot(false_alarms, found, label=name)
    ax.plot([0, 1], [0, 1], '--', color='grey', linewidth=1)
    ax.set(
        title='ROC',
        xlabel='false alarms among normal nodes',
        ylabel='anomalies found',
    )
    ax.legend(loc='lower right')
    return ax


def plot_precision_recall(
    y: NDArray[Any],
    scores: Mapping[str, Floats],
    ax: Any,
    point: tuple[float | None, float | None] | None = None,
) -> Any:
    """Draw the share of alarms that are right over anomalies found.

    Args:
        y (ndarray): Labels 0 or 1, both present, [N].
        scores (Mapping): By the name of the model, scores [N].
        ax (matplotlib.axes.Axes): Where to draw.
        point (tuple, optional): Recall and precision of the threshold.
            (default: :obj:`None`)
    """
    for name, score in scores.items():
        precision, recall, _ = precision_recall_curve(y, score)
        ax.plot(recall, precision, label=name, drawstyle='steps-post')
    ax.axhline(np.mean(y), linestyle='--', color='grey', linewidth=1)
    if point is not None and None not in point:
        ax.plot(*point, 'o', color='black', label='threshold')
    ax.set(
        title='Precision and recall',
        xlabel='anomalies found (recall)',
        ylabel='alarms that are right (precision)',
        ylim=(0, 1.02),
    )
    ax.legend(loc='upper right')
    return ax


def plot_reliability(
    y: NDArray[Any], probabilities: Mapping[str, Floats], ax: Any
) -> Any:
    """Draw the share of anomalies over the probability, in equal bins.

    Args:
        y (ndarray): Labels 0 or 1, [N].
        probabilities (Mapping): By name, probabilities of anomalies [N].
        ax (matplotlib.axes.Axes): Where to draw.
    """
    top = 0.0
    for name, prob in probabilities.items():
        share, said = calibration_curve(
            y, prob, n_bins=15, strategy='quantile'
        )
        ax.plot(said, share, 'o-', label=name, markersize=4)
        top = max(top, *said, *share)
    ax.plot([0, top], [0, top], '--', color='grey', linewidth=1)
    ax.set(
        title='Calibration',
        xlabel='probability, mean of a bin',
        ylabel='anomalies among its nodes',
    )
    ax.legend(loc='upper left')
    return ax


def plot_class_descent(energy: Floats, num_steps: int, ax: Any) -> Any:
    r"""Draw the energy of normal and anomalous nodes over the steps.

    Args:
        energy (ndarray): Mean energies, :math:`[T + 1, 2]`.
        num_steps (int): Steps of the trained networks, marked.
        ax (matplotlib.axes.Axes): Where to draw.
    """
    for kind, name in enumerate(('normal', 'anomalous')):
        ax.plot(energy[:, kind], 'o-', label=name, markersize=4)
    ax.axvline(num_steps, linestyle='--', color='grey', linewidth=1)
    ax.set(
        title='Energy',
        xlabel=f'step (the networks take {num_steps})',
        ylabel='mean energy of a node',
    )
    ax.legend(loc='upper right')
    return ax
