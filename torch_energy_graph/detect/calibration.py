r"""Probabilities that mean what they say, learned on validation nodes.

Temperature scaling divides the log odds by one number,

.. math::
    p' = \sigma\big( \operatorname{logit}(p) / T \big),              (1)

and keeps the order of the nodes. Isotonic regression fits any monotone map;
it also repairs a wrong prevalence, wants more validation nodes, and makes
ties.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from torch_energy_graph.metrics import expected_calibration_error
from torch_energy_graph.ood import fit_temperature

__all__ = [
    'Calibration',
    'IsotonicCalibration',
    'Method',
    'NoCalibration',
    'TemperatureCalibration',
    'calibration_from_dict',
    'check_method',
    'fit_calibration',
    'log_odds',
    'probability_quality',
]

Floats = NDArray[np.float64]
Method: TypeAlias = Literal['temperature', 'isotonic'] | None
_EPS = 1e-12


def check_method(method: object) -> None:
    """ValueError if there is no such method."""
    if method not in ('temperature', 'isotonic', None):
        raise ValueError(
            f"expected 'calibration' as 'temperature', 'isotonic' or None "
            f'(got {method!r})'
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


class TemperatureCalibration:
    """Divides log odds by a temperature, Eq. (1).

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
        scaled: Floats = expit(log_odds(prob) / self.temperature)  # (1)
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


Calibration: TypeAlias = (
    NoCalibration | TemperatureCalibration | IsotonicCalibration
)


def fit_calibration(
    method: Method, y: NDArray[Any], prob: Floats
) -> Calibration:
    """Learn a calibration on validation nodes.

    Args:
        method (str, optional): 'temperature', 'isotonic' or :obj:`None`.
        y (ndarray): Labels 0 or 1, :math:`[N]`.
        prob (ndarray): Probabilities of an anomaly, :math:`[N]`.
    """
    check_method(method)
    if method is None:
        return NoCalibration()
    if method == 'temperature':
        return TemperatureCalibration.fit(y, prob)
    return IsotonicCalibration.fit(y, prob)


def calibration_from_dict(values: Mapping[str, Any]) -> Calibration:
    """What ``to_dict`` was called on; ValueError if there is no such."""
    if values['method'] is None:
        return NoCalibration()
    if values['method'] == 'temperature':
        return TemperatureCalibration(float(values['temperature']))
    if values['method'] == 'isotonic':
        knots, levels = (
            np.array(values[key], dtype=np.float64)
            for key in ('knots', 'values')
        )
        return IsotonicCalibration(knots, levels)
    raise ValueError(f'there is no calibration {values["method"]!r}')


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
