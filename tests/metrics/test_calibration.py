from importlib import util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from torch_energy_graph.metrics import (
    brier_score,
    confidence_gap,
    negative_log_likelihood,
    reliability_curve,
    top_label_calibration_error,
)

MEASURES = [
    brier_score,
    confidence_gap,
    negative_log_likelihood,
    reliability_curve,
    top_label_calibration_error,
]


def draw(seed, rows=200, classes=3, steps=None):
    """Labels and probabilities; in steps, so that confidences tie."""
    rng = np.random.default_rng(seed)
    prob = rng.dirichlet(np.full(classes, 0.7), rows)
    if steps:
        prob = rng.multinomial(steps, prob) / steps
    y = [rng.choice(classes, p=np.sqrt(p) / np.sqrt(p).sum()) for p in prob]
    return np.array(y), prob


def brute_force(y, prob, bins, middle):
    total = 0.0
    for m in range(bins):
        rows = [
            (label == row.argmax(), row.max())
            for label, row in zip(y, prob, strict=True)
            if m / bins < row.max() <= (m + 1) / bins
        ]
        if rows:
            right, said = np.mean(rows, 0)
            said = (m + 0.5) / bins if middle else said
            total += len(rows) / len(y) * abs(right - said)
    return total


def test_by_hand():
    y, prob = [0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]
    # bins (0.5, 0.75] and (0.75, 1]: accuracies 1 and 1 / 2
    out = top_label_calibration_error(y, prob, bins=4)
    assert out == pytest.approx(0.4 / 3 + 0.4 * 2 / 3)
    out = top_label_calibration_error(y, prob, bins=4, confidence='mid')
    assert out == pytest.approx(0.375 / 3 + 0.375 * 2 / 3)
    assert confidence_gap(y, prob) == pytest.approx(2.4 / 3 - 2 / 3)
    assert brier_score(y, prob) == pytest.approx((0.02 + 1.62 + 0.32) / 3)
    expected = -np.log([0.9, 0.1, 0.6]).mean()
    assert negative_log_likelihood(y, prob) == pytest.approx(expected)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 25), st.sampled_from([None, 4, 7]))
def test_errors_equal_brute_force(seed, bins, steps):
    # steps of 1 / 4 and 1 / 7: confidences on the edges of bins, and ties
    y, prob = draw(seed, rows=30, steps=steps)
    for confidence in ('mean', 'mid'):
        out = top_label_calibration_error(y, prob, bins, confidence)
        expected = brute_force(y, prob, bins, confidence == 'mid')
        assert out == pytest.approx(expected, abs=1e-12)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([None, 4]))
def test_scores_equal_sklearn(seed, steps):
    y, prob = draw(seed, rows=30, steps=steps)
    labels = [0, 1, 2]
    out = brier_score(y, prob)
    truth = np.eye(3)[y]
    expected = 3 * np.mean(
        [brier_score_loss(truth[:, k], prob[:, k]) for k in labels]
    )
    assert out == pytest.approx(expected, abs=1e-12)
    out = negative_log_likelihood(y, prob)
    assert out == pytest.approx(log_loss(y, prob, labels=labels), rel=1e-9)


@pytest.mark.skipif(
    util.find_spec('torchmetrics') is None,
    reason='torchmetrics is not installed',
)
@pytest.mark.parametrize('bins', [1, 15, 20])
def test_error_equals_torchmetrics(bins):
    import torch
    from torchmetrics.functional.classification import (
        multiclass_calibration_error,
    )

    y, prob = draw(1)
    expected = multiclass_calibration_error(
        torch.tensor(prob), torch.tensor(y), num_classes=3, n_bins=bins
    )
    out = top_label_calibration_error(y, prob, bins)
    assert out == pytest.approx(float(expected), abs=1e-6)


def test_calibrated_answers_have_small_errors():
    rng = np.random.default_rng(0)
    prob = rng.dirichlet(np.ones(4), 20_000)
    y = (prob.cumsum(1) > rng.random((20_000, 1))).argmax(1)
    assert top_label_calibration_error(y, prob) < 0.02
    sharp = prob**3 / (prob**3).sum(1, keepdims=True)
    assert top_label_calibration_error(y, sharp) > 0.15
    assert confidence_gap(y, sharp) > 0.15
    # a proper score is best at the truth
    assert brier_score(y, prob) < brier_score(y, sharp)
    assert negative_log_likelihood(y, prob) < negative_log_likelihood(y, sharp)


def test_curve():
    y, prob = [0, 0, 1], [[1.0, 0.0], [0.95, 0.05], [0.5, 0.5]]
    curve = reliability_curve(y, prob, bins=10)
    assert curve.lower.tolist() == [0.4, 0.9]  # 0.5 belongs to (0.4, 0.5]
    assert curve.upper.tolist() == [0.5, 1.0]
    assert curve.count.tolist() == [1, 2]
    assert curve.confidence.tolist() == pytest.approx([0.5, 0.975])
    assert curve.accuracy.tolist() == [0.0, 1.0]


def test_plot():
    plt = pytest.importorskip('matplotlib.pyplot')
    curve = reliability_curve(*draw(0))
    given_ax = plt.figure().add_subplot()
    ax = curve.plot(given_ax)
    assert ax is given_ax
    assert len(ax.patches) == len(curve.count)
    points = ax.lines[0].get_xydata()
    np.testing.assert_array_equal(points[:, 0], curve.confidence)
    np.testing.assert_array_equal(points[:, 1], curve.accuracy)
    assert curve.plot() is not given_ax
    plt.close('all')


def test_answers_without_doubt():
    y, prob = [0, 1], [[1.0, 0.0], [1.0, 0.0]]
    assert negative_log_likelihood(y, prob) == pytest.approx(18.0, abs=0.1)
    assert negative_log_likelihood([0], [[1.0]]) == 0.0
    assert top_label_calibration_error(y, prob) == 0.5
    assert brier_score(y, prob) == 1.0


@pytest.mark.parametrize('measure', MEASURES)
@pytest.mark.parametrize(
    ('y', 'prob', 'match'),
    [
        ([0, 1], [[0.5, 0.5]], r'N >= 1 \(got \[2\] and \[1, 2\]\)'),
        ([], np.empty((0, 2)), 'N >= 1'),
        ([0], [0.5], 'N, K'),
        ([0], [[2.0, -1.0]], 'softmax'),
        ([0], [[0.4, 0.4]], 'off by 0.2'),
        ([0], [[np.nan, 1.0]], 'rows of probabilities'),
        ([2], [[0.5, 0.5]], r'classes 0 to 1 \(got \[2\]\)'),
        ([-1], [[0.5, 0.5]], 'unlabelled'),
    ],
)
def test_bad_inputs(measure, y, prob, match):
    with pytest.raises(ValueError, match=match):
        measure(y, prob)


def test_bad_options():
    with pytest.raises(ValueError, match='bins'):
        top_label_calibration_error([0], [[1.0]], bins=0)
    with pytest.raises(ValueError, match="'mean' or 'mid'"):
        top_label_calibration_error([0], [[1.0]], confidence='median')
