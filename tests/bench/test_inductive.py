import numpy as np
import pytest
import torch

from torch_energy_graph.bench import (
    Prediction,
    Unit,
    evaluate,
    get_model,
    get_protocol,
    register_model,
)

UNIT = Unit('tiny', 'et', 'inductive', 0, 0, {'epochs': 2})


def test_the_splits_are_those_of_the_base(tiny):
    task = tiny.tiny()
    split = get_protocol('inductive').split(task, 1)
    base = get_protocol('et-40pct').split(task, 1)
    assert split.inductive
    assert not base.inductive
    assert split.fingerprint() == base.fingerprint()


def test_a_model_is_fitted_without_the_test_nodes(tiny):
    task, seen = tiny.tiny(), {}
    split = get_protocol('inductive').split(task, 0)
    nodes = (~split.test).nonzero().flatten()

    @register_model('inductive_spy')
    def inductive_spy(data, split, seed):
        seen['fit'], seen['split'] = data, split
        assert not split.test.any()

        def predict(graph):
            seen['later'] = graph
            return np.linspace(0, 1, graph.num_nodes)

        return Prediction(np.full(data.num_nodes, 0.5), {}, predict)

    unit = Unit('tiny', 'inductive_spy', 'inductive', 0, 0, {})
    row = evaluate(unit, task)
    assert torch.equal(seen['fit'].x, task.data.x[nodes])
    expected = task.data.subgraph(nodes).edge_index
    assert torch.equal(seen['fit'].edge_index, expected)
    assert torch.equal(seen['split'].train, split.train[nodes])
    assert 'y' not in seen['later']
    assert torch.equal(seen['later'].x, task.data.x)
    # validation nodes keep the score of the graph of training
    assert row['threshold'] == 0.5
    assert row['val']['auprc'] == pytest.approx(0.3, abs=0.01)
    assert row['test']['auprc'] != row['val']['auprc']


def test_a_model_that_cannot_is_told_so(tiny):
    unit = Unit('tiny', 'centroid', 'inductive', 0, 0, {})
    with pytest.raises(ValueError, match="has no 'predict'"):
        evaluate(unit, tiny.tiny())


@pytest.mark.parametrize(
    'name',
    ['logreg_agg', 'histgb', 'forest', 'mlp', 'gcn', 'sage', 'gat', 'bwgnn',
     'et'],
)  # fmt: skip
def test_our_models_score_other_graphs_as_their_own(tiny, name):
    data = tiny.tiny().data
    split = get_protocol('et-40pct').split(tiny.tiny(), 0)
    quick = {'epochs': 3, 'hidden_channels': 8, 'ensemble': 2}
    few = {'forest': {'num_trees': 5}, 'histgb': {'max_iter': 5}}
    params = few.get(name, {} if name == 'logreg_agg' else quick)
    found = get_model(name)(data.clone(), split, 0, **params)
    bare = data.clone()
    del bare.y
    np.testing.assert_allclose(
        found.predict(bare), found.scores, atol=1e-6, rtol=0
    )
    part = bare.subgraph(torch.arange(50))
    assert found.predict(part).shape == (50,)


@pytest.mark.parametrize('x', [5.0, -5.0])
def test_unseen_nodes_change_no_validation_score(tiny, x):
    task, other = tiny.tiny(), tiny.tiny()
    split = get_protocol('inductive').split(task, 0)
    other.data.x[split.test] = x
    rows = [evaluate(UNIT, t) for t in (task, other)]
    for key in ('val', 'threshold', 'best_epoch'):
        assert rows[0][key] == rows[1][key]
    assert rows[0]['test'] != rows[1]['test']
