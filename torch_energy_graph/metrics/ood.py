"""How well a score tells known inputs from others, which it should rank lower.

Scores are high for inputs of the training distribution (ID), which are the
positive class. pytorch-ood has the opposite sign: negate its scores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

__all__ = ['OODMetrics', 'fpr_at_tpr', 'ood_metrics']


class OODMetrics(NamedTuple):
    """Separation of two sets of scores.

    Args:
        auroc (float): Area under the ROC curve; ties count half.
        aupr (float): Average precision, ID positive. Unlike the other two it
            depends on the sizes of the sets.
        fpr95 (float): See :func:`fpr_at_tpr`.
    """

    auroc: float
    aupr: float
    fpr95: float


def ood_metrics(score_in: ArrayLike, score_out: ArrayLike) -> OODMetrics:
    """All measures of two sets of scores.

    Args:
        score_in (array_like): Scores of known inputs, :math:`[N]`.
        score_out (array_like): Scores of other inputs, :math:`[M]`.

    Raises:
        ValueError: If a set is empty or a score not finite.
    """
    known, score = _joined(score_in, score_out)
    return OODMetrics(
        auroc=float(roc_auc_score(known, score)),
        aupr=float(average_precision_score(known, score)),
        fpr95=fpr_at_tpr(score_in, score_out),
    )


def fpr_at_tpr(
    score_in: ArrayLike, score_out: ArrayLike, tpr: float = 0.95
) -> float:
    """Share of other inputs among those kept when known ones are kept.

    The threshold is the highest score that keeps at least the share
    :obj:`tpr` of the known inputs ("kept if score >= threshold"), and the
    result the share of the other inputs that it keeps.

    Args:
        score_in (array_like): Scores of known inputs, :math:`[N]`.
        score_out (array_like): Scores of other inputs, :math:`[M]`.
        tpr (float, optional): Share in (0, 1]. (default: :obj:`0.95`)

    Raises:
        ValueError: If a set is empty, a score not finite, or the share is
            outside (0, 1].
    """
    if not 0 < tpr <= 1:
        raise ValueError(f"expected 'tpr' in (0, 1] (got {tpr})")
    known, score = _joined(score_in, score_out)
    wrong, reached, _ = roc_curve(known, score, drop_intermediate=False)
    # 19 of 20 is 0.95, whatever the rounding of the quotient
    return float(wrong[np.searchsorted(reached, tpr - 1e-12)])


def _joined(
    score_in: ArrayLike, score_out: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether a score is of a known input, and the score, [N + M] each."""
    parts = []
    for name, values in (('score_in', score_in), ('score_out', score_out)):
        part = np.asarray(values, dtype=np.float64)
        if part.ndim != 1 or part.size == 0:
            raise ValueError(
                f"expected '{name}' of shape [N], N >= 1 (got "
                f'{list(part.shape)})'
            )
        bad = np.flatnonzero(~np.isfinite(part))
        if bad.size:
            raise ValueError(
                f"expected finite scores in '{name}' (got {bad.size} NaN or "
                f'Inf, first at positions {bad[:5].tolist()})'
            )
        parts.append(part)
    known = np.repeat([True, False], [part.size for part in parts])
    return known, np.concatenate(parts)
