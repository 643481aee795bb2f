"""What a benchmark is about: its measures, and which of them chooses."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from torch import Tensor

from torch_energy_graph import metrics

__all__ = ['ANOMALIES', 'CLASSES', 'AnomalyGoal', 'ClassGoal', 'Goal']

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]
LARGEST_GAP = 1e-3  # of a sum of probabilities from 1


@dataclass(frozen=True)
class Goal(ABC):
    """Measures of a kind of task.

    Attributes:
        name: What the models tell.
        titles: Title by measure; the first one chooses epochs and settings
            on validation nodes and ranks models on test nodes.
        chosen: What is chosen on validation nodes, in words.
    """

    name: str
    titles: Mapping[str, str]
    chosen: str

    @property
    def metric(self) -> str:
        """The measure that chooses."""
        return next(iter(self.titles))

    @abstractmethod
    def check(self, scores: Scores, model: str, num_nodes: int) -> None:
        """Raise ValueError if scores are no probabilities of this goal."""

    @abstractmethod
    def validate(
        self, y: Labels, scores: Scores, val: Tensor
    ) -> dict[str, float | None]:
        """Measure what tuning needs, on validation nodes."""

    @abstractmethod
    def measure(
        self, y: Labels, scores: Scores, val: Tensor, test: Tensor
    ) -> dict[str, Any]:
        """Return the measures under 'val' and 'test', and what they need."""


class AnomalyGoal(Goal):
    """Probabilities of being anomalous, :math:`[N]`."""

    def check(self, scores: Scores, model: str, num_nodes: int) -> None:
        """Raise ValueError if scores are no probabilities :math:`[N]`."""
        _check_finite(scores, model, [num_nodes])
        if scores.min() < 0 or scores.max() > 1:
            raise ValueError(
                f"'{model}' must return probabilities in [0, 1] (got "
                f'{scores.min():.4g} to {scores.max():.4g}); apply a sigmoid?'
            )

    def validate(
        self, y: Labels, scores: Scores, val: Tensor
    ) -> dict[str, float | None]:
        """AUPRC and AUROC of validation nodes."""
        nodes = val.numpy()
        return {
            'auprc': metrics.auprc(y[nodes], scores[nodes]),
            'auroc': metrics.auroc(y[nodes], scores[nodes]),
        }

    def measure(
        self, y: Labels, scores: Scores, val: Tensor, test: Tensor
    ) -> dict[str, Any]:
        """All measures, at the threshold that is best on validation nodes."""
        nodes = val.numpy()
        threshold, _ = metrics.best_macro_f1_threshold(y[nodes], scores[nodes])
        return {
            'val': _anomaly_measures(y[nodes], scores[nodes], threshold),
            'test': _anomaly_measures(
                y[test.numpy()], scores[test.numpy()], threshold
            ),
            'threshold': threshold,
        }


class ClassGoal(Goal):
    """Probabilities of classes, :math:`[N, C]`."""

    def check(self, scores: Scores, model: str, num_nodes: int) -> None:
        """Raise ValueError if rows are no probabilities of classes."""
        if scores.ndim != 2:
            raise ValueError(
                f"'{model}' must return scores of shape [{num_nodes}, C] "
                f'(got {list(scores.shape)})'
            )
        _check_finite(scores, model, [num_nodes, scores.shape[1]])
        gap = float(np.abs(scores.sum(1) - 1).max())
        if scores.min() < 0 or gap > LARGEST_GAP:
            raise ValueError(
                f"'{model}' must return probabilities that sum to 1 in each "
                f'row (got values from {scores.min():.4g} and sums that are '
                f'off by {gap:.4g}); apply a softmax?'
            )

    def validate(
        self, y: Labels, scores: Scores, val: Tensor
    ) -> dict[str, float | None]:
        """Accuracy of validation nodes."""
        nodes = val.numpy()
        return {'accuracy': _accuracy(y[nodes], scores[nodes])}

    def measure(
        self, y: Labels, scores: Scores, val: Tensor, test: Tensor
    ) -> dict[str, Any]:
        """All measures of the most probable class."""
        return {
            name: _class_measures(y[part.numpy()], scores[part.numpy()])
            for name, part in (('val', val), ('test', test))
        }


ANOMALIES = AnomalyGoal(
    'anomalies',
    {
        'auprc': 'AUPRC',
        'auroc': 'AUROC',
        'recall_at_k': 'Rec@K',
        'macro_f1': 'macro-F1',
        'ece': 'ECE',
    },
    'epoch and threshold are',
)
CLASSES = ClassGoal(
    'classes',
    {'accuracy': 'accuracy', 'macro_f1': 'macro-F1', 'ece': 'ECE'},
    'the epoch is',
)


def _check_finite(scores: Scores, model: str, shape: list[int]) -> None:
    if list(scores.shape) != shape:
        raise ValueError(
            f"'{model}' must return scores of shape {shape} "
            f'(got {list(scores.shape)})'
        )
    bad = int((~np.isfinite(scores)).sum())
    if bad:
        raise ValueError(
            f"'{model}' must return finite scores (got {bad} NaN or Inf)"
        )


def _anomaly_measures(
    y: Labels, scores: Scores, threshold: float
) -> dict[str, float | None]:
    return {
        'auroc': metrics.auroc(y, scores),
        'auprc': metrics.auprc(y, scores),
        'recall_at_k': metrics.recall_at_k(y, scores),
        'macro_f1': metrics.macro_f1(y, scores, threshold),
        'ece': metrics.expected_calibration_error(y, scores),
    }


def _accuracy(y: Labels, scores: Scores) -> float:
    return float((scores.argmax(1) == y).mean())


def _class_measures(y: Labels, scores: Scores) -> dict[str, float]:
    """ECE compares the probability of the class that wins with its truth."""
    guess = scores.argmax(1)
    confidence = scores.max(1).clip(max=1)
    return {
        'accuracy': _accuracy(y, scores),
        'macro_f1': float(f1_score(y, guess, average='macro')),
        'ece': metrics.expected_calibration_error(guess == y, confidence),
    }
