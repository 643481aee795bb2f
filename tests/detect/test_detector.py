import copy
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from torch_geometric.data import Data, HeteroData

from tests.detect.graphs import SMALL, fraud_graph
from torch_energy_graph.bench.config import load_config
from torch_energy_graph.bench.registry import get_model, model_parameters
from torch_energy_graph.bench.split import Split
from torch_energy_graph.detect import (
    AlertBudget,
    EnergyFraudDetector,
    probability_quality,
)
from torch_energy_graph.metrics import auprc, best_macro_f1_threshold


def et_recipe():
    path = Path(__file__).parents[2] / 'benchmarks' / 'configs' / 'fraud.yaml'
    return model_parameters('et', load_config(path).models['et'], str(path))


@pytest.mark.parametrize('relations', [0, 2])
def test_it_is_the_benchmarks_et(relations):
    data = fraud_graph(relations=relations)
    split = Split(data.train_mask, data.val_mask, data.test_mask)
    detector = EnergyFraudDetector(
        **SMALL, calibration=None, random_state=3
    ).fit(data)
    params = {**et_recipe(), **SMALL}
    expected = get_model('et')(data, split, 3, **params).scores
    assert np.array_equal(detector.predict_proba(data)[:, 1], expected)


def test_the_defaults_are_the_configuration_of_et():
    recipe = et_recipe()
    names = inspect.signature(EnergyFraudDetector).parameters
    # 'auto' is the recipe's 8 on graphs of that size
    recipe = {k: v for k, v in recipe.items() if k != 'num_parts'}
    shared = {k: names[k].default for k in recipe if k in names}
    assert shared == {k: recipe[k] for k in shared}
    assert {*recipe} - {*shared} <= {'checkpoint', 'labels'}


def test_scikit_learns_conventions(fitted):
    detector = EnergyFraudDetector(lr=0.01, threshold=AlertBudget(0.1))
    copied = clone(detector)
    assert copied.get_params() == detector.get_params()
    assert copied.set_params(lr=0.5).lr == 0.5
    assert is_classifier(detector)
    assert not [name for name in vars(detector) if name.endswith('_')]
    assert fitted.get_params() == EnergyFraudDetector(**SMALL).get_params()
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.n_features_in_ == 4
    assert clone(fitted).get_params() == fitted.get_params()
    with pytest.raises(ValueError, match='Invalid parameter'):
        detector.set_params(width=3)


def test_progress_is_told_as_it_is_made(graph):
    told = []
    settings = {**SMALL, 'epochs': 4}
    detector = EnergyFraudDetector(**settings)
    detector.fit(graph, progress=told.append)
    assert told == detector.history_
    assert [row['member'] for row in told] == [0, 0, 1, 1]


def test_edge_features_of_no_edges(fitted, graph):
    empty = Data(x=graph.x[:3], edge_index=torch.empty(2, 0).long())
    empty.edge_type = torch.empty(0).long()
    empty.edge_attr = torch.empty(0, 2)
    assert np.isfinite(fitted.predict_proba(empty)).all()


@pytest.mark.parametrize(
    'method', ['predict', 'predict_proba', 'decision_function', 'score_table']
)
def test_an_unfitted_detector_says_so(method, graph):
    with pytest.raises(NotFittedError, match='call fit'):
        getattr(EnergyFraudDetector(), method)(graph)


def test_scores_decisions_and_threshold_fit_together(fitted, graph):
    prob = fitted.predict_proba(graph)
    np.testing.assert_allclose(prob.sum(axis=1), 1, atol=1e-15)
    odds = fitted.decision_function(graph)
    slope = fitted.scorer_.calibration.slope
    shift = fitted.scorer_.calibration.shift
    np.testing.assert_allclose(prob[:, 1], expit(slope * odds + shift))
    flagged = fitted.predict(graph)
    assert np.array_equal(flagged, prob[:, 1] >= fitted.threshold_)
    assert fitted.predict(graph, threshold=0).all()
    val, y = graph.val_mask.numpy(), graph.y.numpy()
    best, _ = best_macro_f1_threshold(y[val], prob[val, 1])
    assert fitted.threshold_ == best
    assert fitted.validation_['alarms'] == flagged[val].sum()
    assert fitted.score(graph, val) == auprc(y[val], prob[val, 1])
    report = fitted.calibration_report(graph, val)
    assert report['after'] == probability_quality(y[val], prob[val, 1])
    assert report['before'] == probability_quality(y[val], expit(odds[val]))
    assert fitted.validation_['ece'] == report['after']['ece']
    table = fitted.score_table(graph)
    assert np.array_equal(table['probability'], prob[:, 1])
    assert np.array_equal(table['std'], fitted.predict_std(graph))
    assert np.array_equal(table['energy'], -fitted.score_samples(graph))
    assert {r['member'] for r in fitted.history_} == {0, 1}


def test_labels_outside_of_the_masks_are_not_read():
    data = fraud_graph()
    hidden = copy.copy(data)
    hidden.y = data.y.masked_fill(data.test_mask, -1)
    short = {**SMALL, 'epochs': 2, 'ensemble': 1}
    odds = [
        EnergyFraudDetector(**short).fit(d).decision_function(bare)
        for d, bare in ((data, hidden), (hidden, Data(**dict(hidden))))
    ]
    assert np.array_equal(*odds)


def test_old_nodes_keep_their_score_when_the_graph_grows(fitted, graph):
    n, m = graph.num_nodes, 10
    gen = torch.Generator().manual_seed(1)
    # new nodes know each other only
    edges = n + torch.randint(m, (2, 30), generator=gen)
    grown = Data(
        x=torch.cat([graph.x, torch.randn(m, 4, generator=gen)]),
        edge_index=torch.cat([graph.edge_index, edges], dim=1),
        edge_type=torch.cat([graph.edge_type, torch.ones(30).long()]),
        edge_attr=torch.cat([graph.edge_attr, torch.zeros(30, 2)]),
    )
    before, after = (fitted.decision_function(g) for g in (graph, grown))
    np.testing.assert_allclose(after[:n], before, rtol=0, atol=1e-5)
    grown.edge_index[0, -1] = 0  # one that touches an old node
    linked = fitted.decision_function(grown)
    assert abs(linked[n:] - after[n:]).max() > 1e-4


def test_masks_are_drawn_stratified_if_none_are_given():
    data = fraud_graph()
    bare = Data(x=data.x, edge_index=data.edge_index, y=data.y)
    short = {**SMALL, 'epochs': 2, 'ensemble': 1}
    report = EnergyFraudDetector(**short).fit(bare).validation_
    assert report['caught'] + report['missed'] == 12  # a fifth of 60


def test_a_fixed_threshold_and_a_budget(graph):
    short = {**SMALL, 'epochs': 2, 'ensemble': 1, 'calibration': 'isotonic'}
    fixed = EnergyFraudDetector(**short, threshold=0.25).fit(graph)
    assert fixed.threshold_ == 0.25
    budget = AlertBudget(0.1)
    detector = EnergyFraudDetector(**short, threshold=budget).fit(graph)
    flagged = detector.predict(graph)[graph.val_mask.numpy()]
    assert flagged.sum() <= 0.1 * len(flagged)


def without(graph, key):
    return Data(**{k: v for k, v in graph.to_dict().items() if k != key})


def test_graphs_of_another_kind_are_refused(fitted, graph):
    wide = Data(**{**graph.to_dict(), 'x': torch.zeros(240, 5)})
    with pytest.raises(ValueError, match=r'4 features \(got 5\)'):
        fitted.predict(wide)
    for key in ('edge_type', 'edge_attr'):
        with pytest.raises(ValueError, match=f"fitted with '{key}'"):
            fitted.predict(without(graph, key))
    new = Data(**{**graph.to_dict(), 'edge_type': graph.edge_type + 1})
    with pytest.raises(ValueError, match=r'relations 0 to 1 \(got 1 to 2\)'):
        fitted.predict(new)
    with pytest.raises(TypeError, match='from_hetero'):
        fitted.predict(HeteroData())
    with pytest.raises(TypeError, match="got 'ndarray'"):
        EnergyFraudDetector().fit(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'calibration': 'platt'}, 'isotonic'),
        ({'threshold': 'best'}, 'AlertBudget'),
        ({'ensemble': 0}, "'ensemble' >= 1"),
        ({'encoding': 'log'}, 'piecewise'),
        ({'num_parts': 'many'}, "'num_parts'"),
    ],
)
def test_wrong_settings_are_errors_of_fit(settings, message, graph):
    with pytest.raises(ValueError, match=message):
        EnergyFraudDetector(**settings).fit(graph)


def test_wrong_masks_and_labels_are_errors(graph):
    mask = torch.zeros(240, 2, dtype=torch.bool)
    with pytest.raises(ValueError, match='choose one column'):
        EnergyFraudDetector().fit(graph, mask)
    with pytest.raises(ValueError, match='disjoint'):
        EnergyFraudDetector().fit(graph, graph.val_mask, graph.val_mask)
    with pytest.raises(ValueError, match="labels 'y'"):
        EnergyFraudDetector().fit(without(graph, 'y'))
