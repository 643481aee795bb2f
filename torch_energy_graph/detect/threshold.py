r"""From probabilities to decisions: the rule "fraud if p >= t".

A target says what a good threshold is. Every distinct probability of the
validation nodes is tried, and one above all of them, which raises no alarm.
Of equally good thresholds the highest one, with the fewest alarms, is taken.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_curve

from torch_energy_graph.metrics import best_macro_f1_threshold

__all__ = [
    'AlertBudget',
    'CostMatrix',
    'FBeta',
    'MacroF1',
    'Target',
    'TopK',
    'as_target',
    'decision_report',
    'target_from_dict',
    'target_to_dict',
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MacroF1:
    """The highest mean of both classes' F1."""

    def choose(self, y: ArrayLike, prob: ArrayLike) -> float:
        """Return the threshold."""
        return best_macro_f1_threshold(y, prob)[0]


@dataclass(frozen=True)
class FBeta:
    r"""The highest :math:`F_\beta` of the anomalies.

    .. math::
        F_\beta = \frac{(1 + \beta^2) TP}
                       {(1 + \beta^2) TP + \beta^2 FN + FP}

    Args:
        beta (float, optional): Weight of recall; above 1, a missed anomaly
            is worse than a false alarm. (default: :obj:`1.0`)
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        if not (self.beta > 0 and math.isfinite(self.beta)):
            raise ValueError(f"'FBeta' expects beta > 0 (got {self.beta})")

    def choose(self, y: ArrayLike, prob: ArrayLike) -> float:
        """Return the threshold."""
        c, weight = _counts(y, prob), self.beta**2
        hits = (1 + weight) * c.tp
        score = hits / (hits + weight * (c.positives - c.tp) + c.fp)
        return float(c.threshold[np.argmax(score)])


@dataclass(frozen=True)
class CostMatrix:
    """The least cost.

    Args:
        costs (tuple, optional): ``((true negative, false alarm), (missed,
            caught))``, in the order of scikit-learn's confusion matrix; a
            gain is negative. (default: :obj:`((0, 1), (10, 0))`)
    """

    costs: tuple[tuple[float, float], tuple[float, float]] = ((0, 1), (10, 0))

    def __post_init__(self) -> None:
        costs = np.asarray(self.costs, dtype=np.float64)
        if costs.shape != (2, 2) or not np.isfinite(costs).all():
            raise ValueError(
                f"'CostMatrix' expects 2 x 2 finite costs (got {self.costs})"
            )

    def choose(self, y: ArrayLike, prob: ArrayLike) -> float:
        """Return the threshold."""
        c, ((passed, alarm), (missed, caught)) = _counts(y, prob), self.costs
        cost = passed * (c.negatives - c.fp) + alarm * c.fp
        cost = cost + missed * (c.positives - c.tp) + caught * c.tp
        return float(c.threshold[np.argmin(cost)])


@dataclass(frozen=True)
class TopK:
    """The :math:`k` nodes with the highest probabilities.

    For precision at :math:`k`: all nodes that tie with the :math:`k`-th are
    flagged, too. Use :class:`AlertBudget` for a number never exceeded.

    Args:
        k (int): Number of validation nodes to flag.
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"'TopK' expects k >= 1 (got {self.k})")

    def choose(self, y: ArrayLike, prob: ArrayLike) -> float:
        """Return the threshold; ValueError with fewer than k nodes."""
        c = _counts(y, prob)
        if self.k > c.positives + c.negatives:
            raise ValueError(
                f"'TopK' expects at least k={self.k} validation nodes (got "
                f'{int(c.positives + c.negatives)})'
            )
        return float(c.threshold[np.argmax(c.tp + c.fp >= self.k)])


@dataclass(frozen=True)
class AlertBudget:
    """As many alarms as can be looked at, and never more.

    Args:
        share (float): Upper bound of the share of validation nodes flagged.
            Nodes that tie are flagged together or not at all.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(
                f"'AlertBudget' expects a share in [0, 1] (got {self.share})"
            )

    def choose(self, y: ArrayLike, prob: ArrayLike) -> float:
        """Return the threshold."""
        c = _counts(y, prob)
        within = (c.tp + c.fp) <= self.share * (c.positives + c.negatives)
        return float(c.threshold[within][-1])


Target: TypeAlias = MacroF1 | FBeta | CostMatrix | TopK | AlertBudget
_TARGETS: dict[str, Any] = {
    target.__name__: target
    for target in (MacroF1, FBeta, CostMatrix, TopK, AlertBudget)
}


def as_target(value: object) -> Target | float:
    """A target, or a fixed threshold, from what a user gives.

    Raises:
        ValueError: With the targets there are.
    """
    if isinstance(value, MacroF1 | FBeta | CostMatrix | TopK | AlertBudget):
        return value
    if value == 'macro_f1':
        return MacroF1()
    if isinstance(value, float | int) and math.isfinite(value):
        return float(value)
    raise ValueError(
        f"expected 'threshold' as 'macro_f1', a number, or one of "
        f'{", ".join(_TARGETS)} from torch_energy_graph.detect (got '
        f'{value!r})'
    )


def target_to_dict(value: object) -> dict[str, Any]:
    """A target ready for JSON."""
    target = as_target(value)
    if isinstance(value, str):
        return {'target': value}
    if isinstance(target, float):
        return {'target': 'fixed', 'value': target}
    return {'target': type(target).__name__, **asdict(target)}


def target_from_dict(values: Mapping[str, Any]) -> Target | float | str:
    """What :func:`target_to_dict` was given; ValueError if there is none."""
    rest = {key: value for key, value in values.items() if key != 'target'}
    if values['target'] == 'fixed':
        return float(rest['value'])
    if values['target'] == 'macro_f1':
        return 'macro_f1'
    if values['target'] not in _TARGETS:
        raise ValueError(f'there is no target {values["target"]!r}')
    if 'costs' in rest:
        first, second = rest['costs']
        rest['costs'] = (tuple(first), tuple(second))
    target: Target = _TARGETS[values['target']](**rest)
    return target


def decision_report(
    y: ArrayLike, prob: ArrayLike, threshold: float
) -> dict[str, Any]:
    """What a threshold does on labelled nodes.

    Returns:
        dict: ``threshold``, ``alarms``, ``caught``, ``missed``,
        ``false_alarms``, ``precision`` (:obj:`None` without an alarm) and
        ``recall`` (:obj:`None` without an anomaly).
    """
    labels, flagged = np.asarray(y) == 1, np.asarray(prob) >= threshold
    alarms, caught = int(flagged.sum()), int((flagged & labels).sum())
    total = int(labels.sum())
    return {
        'threshold': threshold,
        'alarms': alarms,
        'caught': caught,
        'missed': total - caught,
        'false_alarms': alarms - caught,
        'precision': caught / alarms if alarms else None,
        'recall': caught / total if total else None,
    }


class _Counts(NamedTuple):
    """Alarms of every threshold, from none to all."""

    threshold: Floats
    tp: Floats
    fp: Floats
    positives: float
    negatives: float


def _counts(y: ArrayLike, prob: ArrayLike) -> _Counts:
    labels = np.asarray(y)
    positives = float((labels == 1).sum())
    negatives = float((labels == 0).sum())
    if not positives or not negatives or positives + negatives < labels.size:
        raise ValueError(
            f'expected labels 0 and 1, both present, to choose a threshold '
            f'(got {int(negatives)} normal, {int(positives)} anomalous of '
            f'{labels.size} nodes); use a stratified validation set'
        )
    false_positive, tpr, threshold = roc_curve(
        labels, prob, drop_intermediate=False
    )
    # finite, so that it can be saved: just above all probabilities
    threshold[0] = np.nextafter(threshold[1], np.inf)
    tp, fp = np.rint(tpr * positives), np.rint(false_positive * negatives)
    return _Counts(threshold, tp, fp, positives, negatives)
