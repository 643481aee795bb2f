import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from torch_energy_graph.bench import ANOMALIES, CLASSES, goal_of


def test_class_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=60)
    scores = rng.dirichlet(np.ones(4), size=60)
    val = torch.arange(60) < 20
    found = CLASSES.measure(y, scores, val, ~val)
    for name, part in (('val', slice(20)), ('test', slice(20, 60))):
        guess = scores[part].argmax(1)
        accuracy = accuracy_score(y[part], guess)
        f1 = f1_score(y[part], guess, average='macro')
        assert found[name]['accuracy'] == pytest.approx(accuracy)
        assert found[name]['macro_f1'] == pytest.approx(f1)
    assert CLASSES.validate(y, scores, val) == {
        'accuracy': found['val']['accuracy']
    }


def test_calibration_of_the_class_that_wins():
    # one certain and right, one certain and wrong: 1 promised, 1/2 kept
    scores = np.array([[1.0, 0.0, 0.0]] * 2)
    both = torch.ones(2, dtype=torch.bool)
    found = CLASSES.measure(np.array([0, 2]), scores, both, both)
    assert found['test']['ece'] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ('scores', 'message'),
    [
        (np.full(5, 0.5), r'shape \[5, C\] \(got \[5\]\)'),
        (np.full((4, 2), 0.5), r'shape \[5, 2\] \(got \[4, 2\]\)'),
        (np.full((5, 2), np.nan), 'got 10 NaN or Inf'),
        (np.full((5, 2), 0.6), 'off by 0.2.*softmax'),
        (np.tile([1.5, -0.5], (5, 1)), 'values from -0.5'),
    ],
)
def test_bad_class_scores(scores, message):
    with pytest.raises(ValueError, match=message):
        CLASSES.check(scores, 'm', 5)


def test_protocols_have_goals():
    assert goal_of('et-1pct') is goal_of('inductive') is ANOMALIES
    assert goal_of('public') is goal_of('planetoid-random') is CLASSES
    assert (ANOMALIES.metric, CLASSES.metric) == ('auprc', 'accuracy')
