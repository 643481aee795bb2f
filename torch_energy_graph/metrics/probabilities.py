"""Labels and probabilities of classes, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ['check_probabilities', 'top_label']

_LARGEST_GAP = 1e-3  # of a sum of probabilities from 1


def check_probabilities(
    y: ArrayLike, prob: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Arrays of labels [N] and probabilities [N, K].

    Raises:
        ValueError: If rows are no probabilities, or labels no classes.
    """
    labels: NDArray[Any] = np.asarray(y)
    values = np.asarray(prob, dtype=np.float64)
    if values.ndim != 2 or labels.shape != values.shape[:1] or not len(values):
        raise ValueError(
            f'expected labels [N] and probabilities [N, K], N >= 1 (got '
            f'{list(labels.shape)} and {list(values.shape)})'
        )
    gap = np.abs(values.sum(1) - 1)
    # written so that NaN fails, too
    if not (values.min() >= 0 and gap.max() <= _LARGEST_GAP):
        raise ValueError(
            f'expected rows of probabilities (got values from '
            f'{values.min():.4g} and sums that are off by {gap.max():.4g}); '
            f'apply a softmax to logits'
        )
    known = np.isin(labels, np.arange(values.shape[1]))
    if not known.all():
        raise ValueError(
            f'expected classes 0 to {values.shape[1] - 1} (got '
            f'{np.unique(labels[~known])[:5].tolist()}); leave unlabelled '
            f'rows out'
        )
    return labels.astype(np.int64), values


def top_label(
    y: NDArray[np.int64], prob: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether the winning class is right, and its probability, [N] each."""
    return prob.argmax(1) == y, prob.max(1).clip(max=1)
