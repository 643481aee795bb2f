import sys

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.nn.functional import binary_cross_entropy_with_logits

from torch_geometric.data import Data
from torch_geometric.nn import MLP

from torch_energy_graph.bench import (
    UnavailableError,
    get_model,
    get_protocol,
)
from torch_energy_graph.bench.features import (
    Inputs,
    aggregated,
    neighbor_labels,
)
from torch_energy_graph.train import fit, seed_everything

SMALL = {
    'histgb': {'max_iter': 20},
    'histgb_agg': {'max_iter': 20},
    'mlp': {'epochs': 30},
    'mlp_agg': {'epochs': 30},
    'mlp_encoded': {'epochs': 30},
    'gcn': {'epochs': 30},
    'gcn_encoded': {'epochs': 30},
    'sage': {'epochs': 30},
    'gat': {'epochs': 30},
    'bwgnn': {'epochs': 30},
    'forest': {'num_trees': 30},
    'forest_agg': {'num_trees': 30},
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


@pytest.mark.parametrize('hops', [0, 2])
@pytest.mark.parametrize('encoding', ['standard', 'normal', 'piecewise'])
def test_encoders_know_training_nodes_only(task, encoding, hops):
    split = get_protocol('et-40pct').split(task, 0)
    # without edges, so that no mean carries the poison
    task.data.edge_index = task.data.edge_index[:, :0]
    poisoned = task.data.clone()
    poisoned.x[~split.train] = 1e6
    first, again = (
        Inputs(hops, encoding).fit(data, split)(task.data).x
        for data in (task.data, poisoned)
    )
    assert torch.equal(first, again)
    assert poisoned.x[~split.train].eq(1e6).all()  # the input stays


def test_inputs_are_encoded_means(task):
    split = get_protocol('et-40pct').split(task, 0)
    x = Inputs(2, 'standard').fit(task.data, split)(task.data).x
    means = aggregated(task.data)
    centred = means - means[split.train].mean(0)
    expected = centred / means[split.train].std(0, correction=0)
    torch.testing.assert_close(x, expected)
    raw = Inputs(0, 'raw').fit(task.data, split)(task.data)
    assert torch.equal(raw.x, task.data.x)


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
        ('et', SMALL['et'] | {'hops': 2, 'encoding': 'piecewise'}),
        ('et', SMALL['et'] | {'encoding': 'periodic', 'bins': 4}),
        ('et', SMALL['et'] | {'ensemble': 2, 'beta': 'learn'}),
        ('sage', SMALL['sage'] | {'num_parts': 2}),
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


def test_xgboost(task):
    pytest.importorskip('xgboost')
    split = get_protocol('et-40pct').split(task, 0)
    first, again = (
        get_model('xgb_agg')(task.data, split, 0, max_iter=20)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.scores, again.scores)
    test = split.test.numpy()
    y = task.data.y.numpy()[test]
    assert roc_auc_score(y, first.scores[test]) > 0.75
    assert first.info['trees'] == 20


def test_without_xgboost_there_is_a_reason(task, monkeypatch):
    monkeypatch.setitem(sys.modules, 'xgboost', None)
    split = get_protocol('et-40pct').split(task, 0)
    with pytest.raises(UnavailableError, match='pip install xgboost-cpu'):
        get_model('xgb')(task.data, split, 0)


def test_an_ensemble_is_the_mean_of_its_members(task):
    split = get_protocol('et-40pct').split(task, 0)
    params = {'epochs': 3, 'hidden_channels': 8}
    both = get_model('mlp')(task.data, split, 1, ensemble=2, **params)
    single = [
        get_model('mlp')(task.data, split, seed, **params) for seed in (2, 3)
    ]
    mean = np.mean([one.scores for one in single], axis=0)
    np.testing.assert_allclose(both.scores, mean, atol=1e-12)
    sizes = [one.info['num_parameters'] for one in single]
    assert both.info['num_parameters'] == sum(sizes)
    assert both.info['best_epochs'] == [o.info['best_epoch'] for o in single]
    with pytest.raises(ValueError, match="'ensemble' >= 1"):
        get_model('mlp')(task.data, split, 0, ensemble=0)


def test_relations_have_attention_of_their_own(task):
    split = get_protocol('et-40pct').split(task, 0)
    params = {'epochs': 2, 'hidden_channels': 8}
    data = task.data.clone()
    data.edge_type = torch.arange(data.num_edges) % 2
    sizes = [
        get_model('et')(data.clone(), split, 0, relations=r, **params).info[
            'num_parameters'
        ]
        for r in (False, True)
    ]
    # queries and keys of four heads of two channels
    assert sizes[1] - sizes[0] == 2 * 4 * 2 * 8


@pytest.mark.parametrize(('balance', 'power'), [(0.0, 0), (0.5, 0.5), (1, 1)])
def test_balance_is_a_power_of_the_class_ratio(task, balance, power):
    split = get_protocol('et-40pct').split(task, 0)
    params = {'epochs': 3, 'hidden_channels': 8, 'dropout': 0.0}
    found = get_model('mlp')(task.data, split, 0, balance=balance, **params)
    y = task.data.y[split.train]
    weight = ((y == 0).sum() / (y == 1).sum()) ** power
    seed_everything(0)
    expected = fit(
        MLP([3, 8, 1]), Inputs().fit(task.data, split)(task.data),
        split.train, split.val, epochs=3, lr=0.01, patience=50,
        pointwise=True,
        loss=lambda logits, y: binary_cross_entropy_with_logits(
            logits, y.float(), pos_weight=weight
        ),
        predict=lambda model, data: model(data.x).squeeze(-1),
    )  # fmt: skip
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


def test_neighbor_labels_by_hand():
    # 0, 1, 2 -> 3; 3 -> 0; 3 -> 3: the own label is never counted
    data = Data(
        x=torch.zeros(4, 1),
        edge_index=torch.tensor([[0, 1, 2, 3, 3], [3, 3, 3, 0, 3]]),
        y=torch.tensor([1, 0, -1, 1]),
    )
    train = torch.tensor([True, True, False, True])
    found = neighbor_labels(data, train)
    prior = 2 / 3
    share = torch.tensor([(1 + prior) / 2, prior, prior, (1 + prior) / 3])
    torch.testing.assert_close(found[:, 0], share.logit())
    count = torch.tensor([1.0, 0, 0, 2])
    torch.testing.assert_close(found[:, 1], count.log1p())


def test_an_own_label_never_reaches_its_node(task):
    split = get_protocol('et-40pct').split(task, 0)
    data = task.data.clone()
    before = neighbor_labels(data, split.train)
    prior = data.y[split.train].float().mean()
    for node in split.train.nonzero().view(-1).tolist()[:10]:
        other = data.clone()
        other.y[node] = 1 - other.y[node]
        swap = int(  # another one, so that the share of anomalies stays
            (split.train & (data.y == other.y[node])).nonzero()[-1]
        )
        other.y[swap] = data.y[node]
        assert other.y[split.train].float().mean() == prior
        into = other.edge_index[0][other.edge_index[1] == node]
        if swap not in into:
            after = neighbor_labels(other, split.train)
            assert torch.equal(after[node], before[node])


@pytest.mark.parametrize('name', ['mlp_labels', 'et_labels', 'xgb_labels'])
def test_labels_are_for_the_graph_of_the_fit(task, name):
    if name == 'xgb_labels':
        pytest.importorskip('xgboost')
    split = get_protocol('et-40pct').split(task, 0)
    small = {'max_iter': 5} if name == 'xgb_labels' else {'epochs': 2}
    assert get_model(name)(task.data, split, 0, **small).predict is None


def test_labels_of_neighbors_help_where_like_links_to_like(task):
    split = get_protocol('et-40pct').split(task, 0)
    task.data.x = torch.zeros_like(task.data.x)
    test = split.test.numpy()
    y = task.data.y.numpy()[test]
    for name in ('mlp_labels', 'et_labels'):
        scores = get_model(name)(task.data, split, 0, epochs=20).scores
        assert roc_auc_score(y, scores[test]) > 0.9
