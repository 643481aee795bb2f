import json

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from torch_energy_graph.detect.calibration import (
    IsotonicCalibration,
    NoCalibration,
    SigmoidCalibration,
    TemperatureCalibration,
    calibration_from_dict,
    fit_calibration,
    log_odds,
    probability_quality,
)
from torch_energy_graph.metrics import expected_calibration_error


@pytest.fixture
def cases():
    """Known probabilities, and what an over-confident model says."""
    draw = np.random.default_rng(0)
    z = draw.normal(-2, 1.5, 20_000)
    y = (draw.random(z.size) < expit(z)).astype(int)
    return y, expit(z), expit(2.5 * z)


@pytest.mark.parametrize('method', ['sigmoid', 'temperature', 'isotonic'])
def test_known_probabilities_come_back(cases, method):
    y, truth, said = cases
    fit, rest = slice(0, 10_000), slice(10_000, None)
    calibration = fit_calibration(method, y[fit], said[fit])
    prob = calibration(said[rest])
    best = log_loss(y[rest], truth[rest])
    before = log_loss(y[rest], said[rest])
    assert log_loss(y[rest], prob) < before - 0.5 * (before - best)
    assert log_loss(y[rest], prob) == pytest.approx(best, abs=0.005)
    assert expected_calibration_error(y[rest], prob) < 0.02
    assert expected_calibration_error(y[rest], said[rest]) > 0.03
    if method == 'temperature':
        assert calibration.temperature == pytest.approx(2.5, rel=0.05)
    if method == 'sigmoid':
        assert calibration.slope == pytest.approx(0.4, rel=0.05)
        assert calibration.shift == pytest.approx(0, abs=0.05)


def test_quality_by_hand():
    found = probability_quality([1, 0], np.array([0.75, 0.5]))
    assert found == pytest.approx(
        {
            'ece': (0.25 + 0.5) / 2,
            'brier': (0.25**2 + 0.5**2) / 2,
            'nll': -np.log([0.75, 0.5]).mean(),
        }
    )


def test_a_temperature_keeps_the_order():
    prob = np.random.default_rng(1).random(50)
    out = TemperatureCalibration(3.0)(prob)
    assert np.array_equal(np.argsort(prob), np.argsort(out))
    np.testing.assert_allclose(log_odds(out), log_odds(prob) / 3, atol=1e-12)


def test_a_sigmoid_repairs_the_prevalence(cases):
    y, truth, _ = cases
    said = expit(log_odds(truth) + 1.5)  # ten in a hundred where two are
    calibration = fit_calibration('sigmoid', y, said)
    assert calibration.shift == pytest.approx(-1.5, abs=0.1)
    prob = calibration(said)
    assert prob.mean() == pytest.approx(y.mean(), abs=1e-3)
    assert np.array_equal(np.argsort(said), np.argsort(prob))


def test_a_sigmoid_is_finite_without_errors_and_knows_no_better():
    y, prob = np.array([0, 0, 1]), np.array([0.1, 0.2, 0.9])
    sure = fit_calibration('sigmoid', y, prob)(prob)
    # Platt's targets are 1/4 and 2/3
    assert 0.2 < sure.min() < sure.max() < 0.7
    wrong = fit_calibration('sigmoid', y, 1 - prob)(1 - prob)
    np.testing.assert_allclose(wrong, (1 / 4 + 1 / 4 + 2 / 3) / 3)


def test_isotonic_by_hand_is_never_certain():
    calibration = IsotonicCalibration.fit(
        np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.6, 0.9])
    )
    out = calibration(np.array([0.0, 0.1, 0.5, 0.9, 1.0]))
    np.testing.assert_allclose(out, [1 / 6, 1 / 6, 0.5, 5 / 6, 5 / 6])


@pytest.mark.parametrize(
    'calibration',
    [
        NoCalibration(),
        SigmoidCalibration(1 / 3, -0.1),
        TemperatureCalibration(1 / 3),
        IsotonicCalibration(np.array([0.1, 1 / 3]), np.array([0.2, 0.7])),
    ],
)
def test_json_keeps_every_bit(calibration):
    stored = json.loads(json.dumps(calibration.to_dict()))
    prob = np.random.default_rng(2).random(100)
    assert np.array_equal(
        calibration_from_dict(stored)(prob), calibration(prob)
    )


def test_unknown_methods_are_refused():
    with pytest.raises(ValueError, match='isotonic'):
        fit_calibration('platt', np.array([0, 1]), np.array([0.1, 0.2]))
    with pytest.raises(ValueError, match="no calibration 'platt'"):
        calibration_from_dict({'method': 'platt'})
