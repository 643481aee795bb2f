import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from torch_geometric.data import Data

from torch_energy_graph.bench import get_model, get_protocol
from torch_energy_graph.bench.features import aggregated, standardised

SMALL = {
    'histgb': {'max_iter': 20},
    'histgb_agg': {'max_iter': 20},
    'mlp': {'epochs': 30},
    'mlp_agg': {'epochs': 30},
    'gcn': {'epochs': 30},
    'et': {'epochs': 30, 'hidden_channels': 16, 'num_steps': 2},
}


@pytest.fixture
def task(tiny):
    """Anomalies have shifted features and link to each other."""
    task = tiny.tiny()
    y = task.data.y
    gen = torch.Generator().manual_seed(1)
    ends = torch.randint(120, (2, 900), generator=gen)
    task.data.edge_index = ends[:, y[ends[0]] == y[ends[1]]]
    return task


def test_aggregated_features_by_hand():
    # 0 -> 2, 1 -> 2, 2 -> 1; node 0 has no in-edge
    data = Data(
        x=torch.tensor([[1.0], [2.0], [4.0]]),
        edge_index=torch.tensor([[0, 1, 2], [2, 2, 1]]),
    )
    assert aggregated(data).tolist() == [
        [1.0, 0.0, 0.0],
        [2.0, 4.0, 1.5],
        [4.0, 1.5, 2.0],
    ]


def test_scaling_knows_training_nodes_only(task):
    split = get_protocol('et-40pct').split(task, 0)
    scaled = standardised(task.data, split).x[split.train]
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3))
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(3))
    poisoned = task.data.clone()
    poisoned.x[~split.train] = 1e6
    again = standardised(poisoned, split).x[split.train]
    assert torch.equal(scaled, again)
    assert poisoned.x[~split.train].eq(1e6).all()  # the input stays


def test_logistic_regression_is_scikit_learns(task):
    split = get_protocol('et-40pct').split(task, 0)
    x, y = task.data.x.numpy(), task.data.y.numpy()
    oracle = make_pipeline(
        StandardScaler(), LogisticRegression(class_weight='balanced')
    )
    train = split.train.numpy()
    expected = oracle.fit(x[train], y[train]).predict_proba(x)[:, 1]
    result = get_model('logreg')(task.data, split, 0)
    np.testing.assert_allclose(result.scores, expected, atol=1e-4)
    assert result.info == {'num_parameters': 4}


@pytest.mark.parametrize(
    ('name', 'params'),
    [
        *SMALL.items(),
        ('logreg_agg', {}),
        ('et', SMALL['et'] | {'num_parts': 2, 'step_size': 'auto'}),
    ],
)
def test_models_learn_and_repeat(task, name, params):
    split = get_protocol('et-40pct').split(task, 0)
    first, again = (
        get_model(name)(task.data.clone(), split, 3, **params)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.scores, again.scores)
    assert first.info == again.info
    test = split.test.numpy()
    y = task.data.y.numpy()[test]
    assert roc_auc_score(y, first.scores[test]) > 0.75
    if name == 'et':
        assert first.info['energy_end'] < first.info['energy_start']
        assert first.info['energy_monotone']


def test_networks_count_their_parameters(task):
    split = get_protocol('et-40pct').split(task, 0)
    params = {'epochs': 1, 'hidden_channels': 5}
    info = get_model('gcn')(task.data, split, 0, **params).info
    assert info['num_parameters'] == (3 * 5 + 5) + (5 * 1 + 1)
    assert info['best_epoch'] == info['last_epoch'] == 1
