r"""How far probabilities of classes can be trusted.

With the confidence :math:`c_i = \max_k p_{ik}` and
:math:`r_i = 1` where the winning class is right, both averaged over the rows
of a bin of confidences (:mod:`.reliability`),

.. math::
    \mathrm{ECE} = \sum_m \frac{|B_m|}{N} \, |\bar r_m - \bar c_m|   (1)

    \mathrm{Brier} = \frac{1}{N} \sum_{i, k} (p_{ik} - [y_i = k])^2, \qquad
    \mathrm{NLL} = -\frac{1}{N} \sum_i \log p_{i y_i}.               (2)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import log_loss

from .probabilities import check_probabilities, top_label
from .reliability import reliability_curve

__all__ = [
    'brier_score',
    'confidence_gap',
    'negative_log_likelihood',
    'top_label_calibration_error',
]


def top_label_calibration_error(
    y: ArrayLike,
    prob: ArrayLike,
    bins: int = 20,
    confidence: str = 'mean',
) -> float:
    r"""Expected calibration error of the winning class, Eq. (1).

    Args:
        y (array_like): Classes, :math:`[N]`.
        prob (array_like): Probabilities, :math:`[N, K]`.
        bins (int, optional): Number of bins of equal width.
            (default: :obj:`20`)
        confidence (str, optional): What stands for the confidence of a bin:
            :obj:`"mean"` of its rows (Guo et al. 2017, JEM++), or
            :obj:`"mid"`, its mid-point (NG-EBM's released code).
            (default: :obj:`"mean"`)

    Raises:
        ValueError: If an argument is none of these.
    """
    if confidence not in ('mean', 'mid'):
        raise ValueError(
            f"'confidence' must be 'mean' or 'mid' (got {confidence!r})"
        )
    curve = reliability_curve(y, prob, bins)
    middle = (curve.lower + curve.upper) / 2
    said = curve.confidence if confidence == 'mean' else middle
    weight = curve.count / curve.count.sum()
    return float(weight @ np.abs(curve.accuracy - said))  # (1)


def confidence_gap(y: ArrayLike, prob: ArrayLike) -> float:
    """Mean confidence minus accuracy: positive means over-confident.

    Args:
        y (array_like): Classes, :math:`[N]`.
        prob (array_like): Probabilities, :math:`[N, K]`.
    """
    right, confidence = top_label(*check_probabilities(y, prob))
    return float((confidence - right).mean())


def brier_score(y: ArrayLike, prob: ArrayLike) -> float:
    """Squared error of the probabilities, Eq. (2), in [0, 2].

    Args:
        y (array_like): Classes, :math:`[N]`.
        prob (array_like): Probabilities, :math:`[N, K]`.
    """
    labels, values = check_probabilities(y, prob)
    truth = np.eye(values.shape[1])[labels]  # [N, K]
    return float(np.square(values - truth).sum(1).mean())


def negative_log_likelihood(y: ArrayLike, prob: ArrayLike) -> float:
    """Mean negative log-probability of the true class, Eq. (2).

    Probabilities below the precision of float64 are raised to it, so that a
    zero counts 36 instead of infinity.

    Args:
        y (array_like): Classes, :math:`[N]`.
        prob (array_like): Probabilities, :math:`[N, K]`.
    """
    labels, values = check_probabilities(y, prob)
    values = values / values.sum(1, keepdims=True)
    if values.shape[1] == 1:  # log_loss wants two classes
        return 0.0
    return float(log_loss(labels, values, labels=np.arange(values.shape[1])))
