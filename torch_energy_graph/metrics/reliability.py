r"""Reliability: how often a classifier is right where it says it is.

Rows are sorted into M bins of equal width by their confidence, the largest
class probability; :math:`B_m = \big(\frac{m - 1}{M}, \frac{m}{M}\big]`
(Guo et al. 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from torch_energy_graph.extras import require

from .probabilities import check_probabilities, top_label

__all__ = ['ReliabilityCurve', 'reliability_curve']


@dataclass(frozen=True)
class ReliabilityCurve:
    """Confidence and accuracy by bin; bins without rows are left out.

    Args:
        lower (numpy.ndarray): Lower edges of the bins, [M].
        upper (numpy.ndarray): Upper edges, [M].
        count (numpy.ndarray): Rows per bin, >= 1, [M].
        confidence (numpy.ndarray): Mean confidence, [M].
        accuracy (numpy.ndarray): Share of right answers, [M].
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    count: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    def plot(self, ax: Any = None) -> Any:
        """Draws accuracy over confidence; below the diagonal: over-confident.

        Args:
            ax (matplotlib.axes.Axes, optional): Where to draw.
                (default: new axes)

        Returns:
            matplotlib.axes.Axes: The axes; nothing is shown.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        if ax is None:
            pyplot = require('matplotlib.pyplot', 'plot', 'pictures')
            _, ax = pyplot.subplots()
        width = self.upper - self.lower
        ax.bar(self.lower, self.accuracy, width, align='edge', alpha=0.5)
        ax.plot(self.confidence, self.accuracy, 'o')
        ax.plot([0, 1], [0, 1], '--', color='grey')
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.set_xlabel('confidence')
        ax.set_ylabel('accuracy')
        return ax


def reliability_curve(
    y: ArrayLike, prob: ArrayLike, bins: int = 20
) -> ReliabilityCurve:
    """Confidence and accuracy of the winning class, by bin.

    Args:
        y (array_like): Classes, :math:`[N]`.
        prob (array_like): Probabilities, :math:`[N, K]`.
        bins (int, optional): Number M of bins. (default: :obj:`20`)

    Raises:
        ValueError: If rows are no probabilities, labels no classes, or there
            is no bin.
    """
    if bins < 1:
        raise ValueError(f"expected 'bins' >= 1 (got {bins})")
    right, confidence = top_label(*check_probabilities(y, prob))
    edges = np.arange(bins + 1) / bins  # exact, as the quotients of ties are
    # of the edges inside, those below: (m - 1) / M < c <= m / M
    index = np.searchsorted(edges[1:-1], confidence, side='left')
    count = np.bincount(index, minlength=bins)
    used = count > 0

    def mean(values: NDArray[Any]) -> NDArray[np.float64]:
        total = np.bincount(index, weights=values, minlength=bins)
        return total[used] / count[used]

    return ReliabilityCurve(
        lower=edges[:-1][used],
        upper=edges[1:][used],
        count=count[used],
        confidence=mean(confidence),
        accuracy=mean(right),
    )
