from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from torch_energy_graph.metrics import (
    auprc,
    auroc,
    best_macro_f1_threshold,
    expected_calibration_error,
    macro_f1,
    recall_at_k,
)

# few distinct values, so that ties are the rule
pairs = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([-0.5, 0.0, 0.25, 1.0])),
    min_size=1,
    max_size=6,
).map(lambda rows: tuple(np.array(column) for column in zip(*rows)))  # noqa: B905
both_classes = pairs.filter(lambda p: 0 < p[0].sum() < len(p[0]))


@given(both_classes)
def test_areas_equal_sklearn(pair):
    assert auroc(*pair) == roc_auc_score(*pair)
    assert auprc(*pair) == average_precision_score(*pair)


@pytest.mark.parametrize('y', [[0, 0], [1, 1]])
def test_areas_are_none_without_both_classes(y):
    assert auroc(y, [0.1, 0.2]) is None
    assert auprc(y, [0.1, 0.2]) is None


@given(pairs, st.data())
def test_recall_is_the_mean_over_all_orders_of_ties(pair, data):
    y, score = pair
    k = data.draw(st.none() | st.integers(1, len(y)))
    hits = []
    for order in permutations(range(len(y))):
        top = sorted(order, key=lambda i: -score[i])[: k or y.sum()]
        hits.append(y[top].sum())
    out = recall_at_k(y, score, k)
    if y.sum() == 0:
        assert out is None
    else:
        assert out == pytest.approx(np.mean(hits) / y.sum(), abs=1e-12)


def test_recall_of_constant_scores_does_not_depend_on_node_order():
    score = np.zeros(10)
    for position in (0, 9):
        y = np.zeros(10, dtype=int)
        y[position] = 1
        assert recall_at_k(y, score) == pytest.approx(0.1)


@settings(max_examples=50)
@given(both_classes)
def test_threshold_equals_brute_force(pair):
    y, score = pair

    f1 = {
        t: f1_score(
            y, score >= t, average='macro', labels=[0, 1], zero_division=0
        )
        for t in set(score.tolist())
    }
    threshold, value = best_macro_f1_threshold(y, score)
    best = max(f1.values())
    assert value == pytest.approx(best, abs=1e-12)
    assert threshold == max(t for t in f1 if best - f1[t] < 1e-12)
    assert macro_f1(y, score, threshold) == pytest.approx(value, abs=1e-12)


def test_macro_f1_by_hand():
    # one hit, one miss, one false alarm, two true negatives
    out = macro_f1([1, 1, 0, 0, 0], [0.9, 0.1, 0.8, 0.2, 0.3], 0.5)
    assert out == pytest.approx((2 / 4 + 4 / 6) / 2)


def test_threshold_needs_both_classes():
    with pytest.raises(ValueError, match='both classes'):
        best_macro_f1_threshold([0, 0], [0.1, 0.2])


def test_calibration_error_by_hand():
    y, prob = [0, 1, 1, 1], [0.1, 0.3, 0.6, 0.8]
    # bins {0.1, 0.3} and {0.6, 0.8}: |1/2 - 0.2| / 2 + |1 - 0.7| / 2
    out = expected_calibration_error(y, prob, bins=2)
    assert out == pytest.approx(0.3)


@given(st.integers(0, 1000), st.integers(1, 20))
def test_calibration_error_agrees_with_sklearn(seed, bins):
    rng = np.random.default_rng(seed)
    prob = rng.random(200)
    y = (rng.random(200) < prob**2).astype(int)
    true, mean = calibration_curve(y, prob, n_bins=bins, strategy='quantile')
    edges = np.quantile(prob, np.linspace(0, 1, bins + 1))
    mass = np.bincount(np.searchsorted(edges[1:-1], prob)) / 200
    out = expected_calibration_error(y, prob, bins)
    assert out == pytest.approx(np.abs(true - mean) @ mass, abs=1e-12)


def test_calibration_error_does_not_depend_on_node_order():
    rng = np.random.default_rng(0)
    prob = rng.integers(0, 4, 60) / 4
    y = rng.integers(0, 2, 60)
    order = rng.permutation(60)
    assert expected_calibration_error(y, prob) == pytest.approx(
        expected_calibration_error(y[order], prob[order]), abs=1e-12
    )


def test_perfect_calibration():
    y = np.array([0, 1] * 50)
    assert expected_calibration_error(y, np.full(100, 0.5)) == 0
    assert expected_calibration_error(y, y.astype(float)) == 0


@pytest.mark.parametrize(
    'measure', [auroc, auprc, recall_at_k, best_macro_f1_threshold]
)
@pytest.mark.parametrize(
    ('y', 'score', 'match'),
    [
        ([0, 1, 0], [0.1, np.nan, 0.2], r'1 NaN or Inf.*\[1\]'),
        ([0, 1, 0], [0.1, 0.5, np.inf], r'NaN or Inf.*\[2\]'),
        ([0, 1, -1], [0.1, 0.5, 0.2], 'labels 0 or 1'),
        ([0, 1, 2], [0.1, 0.5, 0.2], 'labels 0 or 1'),
        ([0, 1], [0.1, 0.5, 0.2], 'one shape'),
        ([], [], 'N >= 1'),
    ],
)
def test_bad_input(measure, y, score, match):
    with pytest.raises(ValueError, match=match):
        measure(y, score)


@pytest.mark.parametrize('k', [0, 4])
def test_k_out_of_range(k):
    with pytest.raises(ValueError, match='1 <='):
        recall_at_k([0, 1, 0], [0.1, 0.2, 0.3], k)


def test_other_bad_arguments():
    with pytest.raises(ValueError, match='sigmoid'):
        expected_calibration_error([0, 1], [-2.0, 3.0])
    with pytest.raises(ValueError, match='bins'):
        expected_calibration_error([0, 1], [0.2, 0.3], bins=0)
    with pytest.raises(ValueError, match='threshold'):
        macro_f1([0, 1], [0.2, 0.3], float('nan'))
