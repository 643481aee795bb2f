import numpy as np
import pytest
import torch

from torch_energy_graph.bench import get_model, get_protocol
from torch_energy_graph.bench.stacked import out_of_fold


@pytest.fixture
def noise(tiny):
    """Labels that no feature explains."""
    task = tiny.tiny()
    gen = torch.Generator().manual_seed(5)
    task.data.x = torch.randn(120, 3, generator=gen)
    return task, get_protocol('et-40pct').split(task, 0)


class Memory:
    """Gives 1 to the rows that it was fitted on and 0 to others."""

    def __init__(self, **_):
        pass

    def fit(self, x, y):
        self.rows = {row.tobytes() for row in x}
        return self

    def predict_proba(self, x):
        seen = np.array([row.tobytes() in self.rows for row in x])
        return np.stack([~seen, seen], axis=1).astype(float)


def test_no_node_has_a_score_of_trees_that_were_fitted_on_it(
    noise, monkeypatch
):
    task, split = noise
    monkeypatch.setattr(
        'torch_energy_graph.bench.stacked.HistGradientBoostingClassifier',
        Memory,
    )
    odds = out_of_fold(task.data, split, 0)
    expected = np.log(1e-4 / (1 - 1e-4))
    assert odds[:, 0].tolist() == pytest.approx([expected] * 120)


def test_labels_outside_training_are_never_read(noise):
    task, split = noise
    poisoned = task.data.clone()
    poisoned.y[~split.train] = -1
    first, second = (
        out_of_fold(data, split, 0) for data in (task.data, poisoned)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize('name', ['stacked', 'mlp_stacked'])
def test_rows_of_their_own(tiny, name):
    task = tiny.tiny()
    split = get_protocol('et-40pct').split(task, 0)
    params = {'epochs': 3, 'hidden_channels': 8, 'bins': 4}
    first, again = (
        get_model(name)(task.data.clone(), split, 0, **params)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.scores, again.scores)
    assert first.predict is None


def test_too_few_anomalies(tiny):
    task = tiny.tiny()
    split = get_protocol('et-40pct').split(task, 0)
    y = task.data.y
    nodes = (split.train & (y == 1)).nonzero().flatten()
    split.train[nodes[1:]] = False
    with pytest.raises(ValueError, match='at least two training nodes'):
        out_of_fold(task.data, split, 0)
