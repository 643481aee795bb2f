r"""Measures for rare anomalies: numpy in, floats out, ties handled exactly.

Scores are high for anomalies. A measure that is undefined because one class
is missing is :obj:`None`, never NaN; scores that are not finite are refused.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

__all__ = [
    'auprc',
    'auroc',
    'best_macro_f1_threshold',
    'expected_calibration_error',
    'macro_f1',
    'recall_at_k',
]


def auroc(y: ArrayLike, score: ArrayLike) -> float | None:
    """Area under the ROC curve, or :obj:`None` if a class is missing.

    Args:
        y (array_like): Labels 0 or 1, :math:`[N]`.
        score (array_like): Anomaly scores, :math:`[N]`.
    """
    y, score = _check(y, score)
    if not _has_both_classes(y):
        return None
    return float(roc_auc_score(y, score))


def auprc(y: ArrayLike, score: ArrayLike) -> float | None:
    """Average precision, or :obj:`None` if a class is missing.

    Args:
        y (array_like): Labels 0 or 1, :math:`[N]`.
        score (array_like): Anomaly scores, :math:`[N]`.
    """
    y, score = _check(y, score)
    if not _has_both_classes(y):
        return None
    return float(average_precision_score(y, score))


def recall_at_k(
    y: ArrayLike, score: ArrayLike, k: int | None = None
) -> float | None:
    r"""Share of the anomalies among the :math:`k` highest scores.

    Nodes that tie with the :math:`k`-th score enter with equal chance, so the
    result is the expectation over random orders of ties. With :math:`a` nodes
    above the :math:`k`-th score (:math:`a_+` of them anomalous) and :math:`m`
    nodes at it (:math:`m_+` anomalous), and :math:`P` anomalies in all,

    .. math::
        \frac{1}{P} \Big( a_+ + \frac{k - a}{m}\, m_+ \Big).         (1)

    Args:
        y (array_like): Labels 0 or 1, :math:`[N]`.
        score (array_like): Anomaly scores, :math:`[N]`.
        k (int, optional): Number of nodes inspected; if :obj:`None`, the
            number of anomalies. (default: :obj:`None`)

    Returns:
        float or None: :obj:`None` if there are no anomalies.
    """
    y, score = _check(y, score)
    positives = int(y.sum())
    if k is not None and not 1 <= k <= len(y):
        raise ValueError(f"expected 1 <= 'k' <= {len(y)} nodes (got {k})")
    if positives == 0:
        return None
    k = positives if k is None else k
    kth = np.partition(score, -k)[-k]
    above, tied = score > kth, score == kth
    share = (k - above.sum()) / tied.sum()
    return float((y[above].sum() + share * y[tied].sum()) / positives)  # (1)


def best_macro_f1_threshold(
    y: ArrayLike, score: ArrayLike
) -> tuple[float, float]:
    """Threshold with the highest macro-F1, to be chosen on validation nodes.

    Every distinct score :math:`t` is tried as the rule "anomalous if
    score >= t". Among equally good thresholds the highest one, which raises
    the fewest alarms, is taken.

    Args:
        y (array_like): Labels 0 or 1, both present, :math:`[N]`.
        score (array_like): Anomaly scores, :math:`[N]`.

    Returns:
        tuple: Threshold and its macro-F1.
    """
    y, score = _check(y, score)
    if not _has_both_classes(y):
        raise ValueError(
            f'expected nodes of both classes to choose a threshold (got '
            f'{len(y)} nodes, {int(y.sum())} anomalous); use a stratified '
            f'validation set'
        )
    order = np.argsort(-score, kind='stable')
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))
    flagged = last + 1  # nodes with score >= t, for every distinct t
    true_pos = np.cumsum(y[order])[last]
    true_neg = len(y) - y.sum() - (flagged - true_pos)
    f1_pos = 2 * true_pos / (flagged + y.sum())
    f1_neg = 2 * true_neg / (2 * len(y) - flagged - y.sum())
    f1 = (f1_pos + f1_neg) / 2
    best = int(np.argmax(f1))
    return float(score[order][last[best]]), float(f1[best])


def macro_f1(y: ArrayLike, score: ArrayLike, threshold: float) -> float:
    """Macro-F1 of the rule "anomalous if score >= threshold".

    Args:
        y (array_like): Labels 0 or 1, :math:`[N]`.
        score (array_like): Anomaly scores, :math:`[N]`.
        threshold (float): From :func:`best_macro_f1_threshold` on validation.
    """
    y, score = _check(y, score)
    if np.isnan(threshold):
        raise ValueError(f"expected a number as 'threshold' (got {threshold})")
    flagged = score >= threshold
    return float(
        f1_score(y, flagged, labels=[0, 1], average='macro', zero_division=0)
    )


def expected_calibration_error(
    y: ArrayLike, prob: ArrayLike, bins: int = 15
) -> float:
    r"""Expected calibration error over bins of equal mass.

    .. math::
        \sum_b \frac{n_b}{N} \big\lvert \bar y_b - \bar p_b \big\rvert  (2)

    Bin edges are quantiles of :obj:`prob`; equal probabilities share a bin.

    Args:
        y (array_like): Labels 0 or 1, :math:`[N]`.
        prob (array_like): Probabilities of an anomaly, :math:`[N]`.
        bins (int, optional): Number of bins. (default: :obj:`15`)
    """
    y, prob = _check(y, prob)
    if bins < 1:
        raise ValueError(f"expected 'bins' >= 1 (got {bins})")
    if prob.min() < 0 or prob.max() > 1:
        raise ValueError(
            f'expected probabilities in [0, 1] (got {prob.min():.4g} to '
            f'{prob.max():.4g}); apply a sigmoid to logits'
        )
    edges = np.quantile(prob, np.linspace(0, 1, bins + 1)[1:-1])
    gap = np.bincount(np.searchsorted(edges, prob), weights=y - prob)
    return float(np.abs(gap).sum() / len(y))  # (2), n_b cancels


def _check(
    y: ArrayLike, score: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    labels: NDArray[Any] = np.asarray(y)
    values = np.asarray(score, dtype=np.float64)
    if labels.shape != values.shape or labels.ndim != 1 or labels.size == 0:
        raise ValueError(
            f'expected labels and scores of one shape [N], N >= 1 (got '
            f'{list(labels.shape)} and {list(values.shape)})'
        )
    if not np.isin(labels, (0, 1)).all():
        raise ValueError(
            f'expected labels 0 or 1 (got {np.unique(labels)[:5].tolist()}); '
            f'leave unlabelled nodes out'
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f'expected finite scores (got {bad.size} NaN or Inf, first at '
            f'positions {bad[:5].tolist()})'
        )
    return labels.astype(np.int64), values


def _has_both_classes(y: NDArray[np.int64]) -> bool:
    return bool(0 < y.sum() < len(y))
