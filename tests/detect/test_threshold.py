import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    confusion_matrix,
    f1_score,
    fbeta_score,
    precision_recall_curve,
)

from torch_energy_graph.detect.threshold import (
    AlertBudget,
    CostMatrix,
    FBeta,
    MacroF1,
    TopK,
    as_target,
    decision_report,
    target_from_dict,
    target_to_dict,
)


@st.composite
def scored(draw):
    """Labels of both classes, and probabilities with ties."""
    n = draw(st.integers(2, 40))
    y = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    prob = draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    y[0], y[1] = 0, 1
    return np.array(y), np.array(prob) / 12


def best_over(prob, value):
    """Highest of the best thresholds, by trying all."""
    tries = [*np.unique(prob), np.nextafter(prob.max(), np.inf)]
    values = [value(prob >= t) for t in tries]
    return max(
        t for t, v in zip(tries, values, strict=True) if v == max(values)
    )


@settings(max_examples=40)
@given(scored())
def test_macro_f1_is_the_best_of_all(case):
    y, prob = case
    chosen = MacroF1().choose(y, prob)

    def score(flagged):
        return f1_score(y, flagged, average='macro', zero_division=0)

    top = max(score(prob >= t) for t in np.unique(prob))
    assert score(prob >= chosen) == pytest.approx(top, abs=1e-12)


@settings(max_examples=40)
@given(scored(), st.sampled_from([0.5, 1.0, 2.0]))
def test_f_beta_is_the_best_of_sklearns_curve(case, beta):
    y, prob = case
    chosen = FBeta(beta).choose(y, prob)
    precision, recall, _ = precision_recall_curve(y, prob)
    weight = beta**2
    with np.errstate(invalid='ignore'):
        f = (1 + weight) * precision * recall / (weight * precision + recall)
    found = fbeta_score(y, prob >= chosen, beta=beta, zero_division=0)
    assert found == pytest.approx(np.nanmax(f), abs=1e-12)


@settings(max_examples=40)
@given(
    scored(),
    st.tuples(*[st.tuples(*[st.integers(-3, 9)] * 2)] * 2),
)
def test_costs_are_the_least_of_all(case, costs):
    y, prob = case
    chosen = CostMatrix(costs).choose(y, prob)

    def gain(flagged):
        return -(confusion_matrix(y, flagged, labels=[0, 1]) * costs).sum()

    assert chosen == best_over(prob, gain)


@settings(max_examples=40)
@given(scored(), st.floats(0, 1))
def test_a_budget_is_never_exceeded_and_is_used(case, share):
    y, prob = case
    chosen = AlertBudget(share).choose(y, prob)
    assert (prob >= chosen).sum() <= share * len(y)
    lower = prob[prob < chosen]
    if lower.size:  # one more group of ties would be too many
        assert (prob >= lower.max()).sum() > share * len(y)


def test_the_top_k_by_hand():
    y, prob = [0, 1, 0, 1, 0], [0.1, 0.9, 0.8, 0.5, 0.5]
    assert TopK(1).choose(y, prob) == 0.9
    assert TopK(2).choose(y, prob) == 0.8
    assert TopK(3).choose(y, prob) == 0.5  # both that tie
    with pytest.raises(ValueError, match='k=6 validation nodes'):
        TopK(6).choose(y, prob)


def test_the_report_by_hand():
    report = decision_report([0, 1, 0, 1], [0.1, 0.9, 0.8, 0.5], 0.8)
    assert report == {
        'threshold': 0.8,
        'alarms': 2,
        'caught': 1,
        'missed': 1,
        'false_alarms': 1,
        'precision': 0.5,
        'recall': 0.5,
    }
    assert decision_report([0, 0], [0.1, 0.2], 0.5)['precision'] is None


@pytest.mark.parametrize(
    'value',
    ['macro_f1', 0.3, FBeta(2.0), CostMatrix(((0, 2), (9, -1))), TopK(5)],
)
def test_targets_survive_json(value):
    assert target_from_dict(target_to_dict(value)) == value


@pytest.mark.parametrize('value', ['f1', None, float('nan'), MacroF1])
def test_an_unknown_target_is_named(value):
    with pytest.raises(ValueError, match='AlertBudget'):
        as_target(value)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match='both present'):
        FBeta().choose([0, 0], [0.1, 0.2])
