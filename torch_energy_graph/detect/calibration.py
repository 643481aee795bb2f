r"""Probabilities that mean what they say, learned on validation nodes.

Platt's sigmoid is a logistic regression on the log odds, and temperature
scaling divides them by one number,

.. math::
    p' = \sigma\big( a \operatorname{logit}(p) + b \big), \qquad    (1)

    p' = \sigma\big( \operatorname{logit}(p) / T \big).              (2)

Both keep the order of the nodes; (1) also repairs a wrong prevalence.
Isotonic regression fits any monotone map; it wants more validation nodes, and
makes ties.

J. Platt, *Probabilistic Outputs for Support Vector Machines*, 1999.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from torch_energy_graph.metrics import expected_calibration_error
from torch_energy_graph.ood import fit_temperature

__all__ = [
    'Calibration',
    'IsotonicCalibration',
    'Method',
    'NoCalibration',
    'SigmoidCalibration',
    'TemperatureCalibration',
    'calibration_from_dict',
    'check_method',
    'fit_calibration',
    'log_odds',
    'probability_quality',
]

Floats = NDArray[np.float64]
Method: TypeAlias = Literal['sigmoid', 'temperature', 'isotonic'] | None
_EPS = 1e-12


def check_method(method: object) -> None:
    """ValueError if there is no such method."""
    if method not in (*_METHODS, None):
        raise ValueError(
            f"expected 'calibration' as one of {list(_METHODS)} or None (got "
            f'{method!r})'
        )


def log_odds(prob: Floats) -> Floats:
    """Finite log odds: probabilities closer to 0 or 1 than 1e-12 are moved."""
    odds: Floats = logit(np.clip(prob, _EPS, 1 - _EPS))
    return odds


class NoCalibration:
    """Leaves probabilities as they are."""

    def __call__(self, prob: Floats) -> Floats:
        """Return the probabilities."""
        return prob

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned, ready for JSON."""
        return {'method': None}


class SigmoidCalibration:
    r"""Logistic regression on the log odds, Eq. (1).

    It is fitted to Platt's targets, (n + 1) / (n + 2) for the n anomalous
    validation nodes and 1 / (m + 2) for the m normal ones, so that it stays
    finite where both are told apart without an error.

    Args:
        slope (float): :math:`a \ge 0`; 0 if the scores tell nothing.
        shift (float): :math:`b`.
    """

    def __init__(self, slope: float, shift: float) -> None:
        self.slope, self.shift = slope, shift

    @classmethod
    def fit(cls, y: NDArray[Any], prob: Floats) -> 'SigmoidCalibration':
        """The regression with the greatest likelihood."""
        anomalous = np.asarray(y) == 1
        n = anomalous.sum()
        high, low = (n + 1) / (n + 2), 1 / (len(prob) - n + 2)
        target = np.where(anomalous, high, low)
        # a target between 0 and 1 is a node of both classes
        z = np.tile(log_odds(prob), 2)[:, None]
        model = LogisticRegression(C=np.inf).fit(
            z,
            np.repeat([1, 0], len(prob)),
            np.concatenate([target, 1 - target]),
        )
        slope, shift = float(model.coef_[0, 0]), float(model.intercept_[0])
        if slope <= 0:  # scores that mislead: the prevalence for all
            slope, shift = 0.0, float(log_odds(np.array(target.mean())))
        return cls(slope, shift)

    def __call__(self, prob: Floats) -> Floats:
        """Return calibrated probabilities."""
        moved: Floats = expit(self.slope * log_odds(prob) + self.shift)  # (1)
        return moved

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned, ready for JSON."""
        return {'method': 'sigmoid', 'slope': self.slope, 'shift': self.shift}


class TemperatureCalibration:
    """Divides log odds by a temperature, Eq. (2).

    Args:
        temperature (float): :math:`T > 0`; above 1, less confident.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    @classmethod
    def fit(cls, y: NDArray[Any], prob: Floats) -> 'TemperatureCalibration':
        """The temperature with the least negative log-likelihood."""
        z = torch.from_numpy(log_odds(prob))
        # the softmax of (0, z) is the sigmoid of z
        logits = torch.stack([torch.zeros_like(z), z], dim=-1)  # [N, 2]
        return cls(fit_temperature(logits, torch.as_tensor(y)))

    def __call__(self, prob: Floats) -> Floats:
        """Return calibrated probabilities."""
        scaled: Floats = expit(log_odds(prob) / self.temperature)  # (2)
        return scaled

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned, ready for JSON."""
        return {'method': 'temperature', 'temperature': self.temperature}


class IsotonicCalibration:
    r"""A monotone map, linear between knots.

    With :math:`n` validation nodes no probability gets closer to 0 or 1 than
    :math:`1 / (n + 2)`: more than that they cannot tell, and a single wrong 0
    would make the likelihood vanish.

    Args:
        knots (ndarray): Probabilities in increasing order, :math:`[K]`.
        values (ndarray): What they become, :math:`[K]`.
    """

    def __init__(self, knots: Floats, values: Floats) -> None:
        self.knots, self.values = knots, values

    @classmethod
    def fit(cls, y: NDArray[Any], prob: Floats) -> 'IsotonicCalibration':
        """Isotonic regression of the labels."""
        low = 1 / (len(prob) + 2)
        fitted = IsotonicRegression(y_min=low, y_max=1 - low).fit(prob, y)
        return cls(fitted.X_thresholds_, fitted.y_thresholds_)

    def __call__(self, prob: Floats) -> Floats:
        """Return calibrated probabilities."""
        return np.interp(prob, self.knots, self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned, ready for JSON."""
        return {
            'method': 'isotonic',
            'knots': self.knots.tolist(),
            'values': self.values.tolist(),
        }


_METHODS: Mapping[str, Any] = {
    'sigmoid': SigmoidCalibration,
    'temperature': TemperatureCalibration,
    'isotonic': IsotonicCalibration,
}
Calibration: TypeAlias = (
    NoCalibration
    | SigmoidCalibration
    | TemperatureCalibration
    | IsotonicCalibration
)


def fit_calibration(
    method: Method, y: NDArray[Any], prob: Floats
) -> Calibration:
    """Learn a calibration on validation nodes.

    Args:
        method (str, optional): 'sigmoid', 'temperature', 'isotonic' or
            :obj:`None`.
        y (ndarray): Labels 0 or 1, :math:`[N]`.
        prob (ndarray): Probabilities of an anomaly, :math:`[N]`.
    """
    check_method(method)
    if method is None:
        return NoCalibration()
    return _METHODS[method].fit(y, prob)


def calibration_from_dict(values: Mapping[str, Any]) -> Calibration:
    """What ``to_dict`` was called on; ValueError if there is no such."""
    method = values['method']
    if method is None:
        return NoCalibration()
    if method == 'sigmoid':
        return SigmoidCalibration(values['slope'], values['shift'])
    if method == 'temperature':
        return TemperatureCalibration(float(values['temperature']))
    if method == 'isotonic':
        knots, levels = (
            np.array(values[key], dtype=np.float64)
            for key in ('knots', 'values')
        )
        return IsotonicCalibration(knots, levels)
    raise ValueError(f'there is no calibration {method!r}')


def probability_quality(y: ArrayLike, prob: Floats) -> dict[str, float]:
    """How far probabilities of an anomaly can be taken at their word.

    Args:
        y (array_like): Labels 0 or 1, [N].
        prob (array_like): Probabilities, [N].

    Returns:
        dict: ``ece`` (15 bins of equal mass), ``brier`` (mean squared error)
        and ``nll`` (mean negative log-likelihood); all better when lower.
    """
    return {
        'ece': expected_calibration_error(y, prob),
        'brier': float(brier_score_loss(y, prob, pos_label=1)),
        'nll': float(log_loss(y, prob, labels=[0, 1])),
    }
