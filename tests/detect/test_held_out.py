"""Measures of nodes that were held out."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, f1_score

from torch_energy_graph.detect.descent import energy_descent
from torch_energy_graph.detect.held_out import (
    expected_ece,
    ranking_quality,
    threshold_table,
)


def test_error_by_chance():
    # one bin; the mean of n coins with p is off by E|B(n, p) / n - p|
    assert expected_ece(np.array([0.5])) == 0.5
    two = expected_ece(np.full(2, 0.5), draws=4000)
    assert two == pytest.approx(0.25, abs=0.02)
    assert expected_ece(np.array([0.0, 1.0, 1.0])) == 0.0
    many = np.random.default_rng(1).random(3000)
    # 15 bins of n = 200: E|N(0, p (1 - p) / n)|, p (1 - p) is 1 / 6 on average
    normal = np.sqrt(2 / np.pi / 6 / 200)
    assert expected_ece(many, draws=40) == pytest.approx(normal, rel=0.1)


def test_thresholds_come_from_validation_nodes():
    gen = np.random.default_rng(1)
    y = (gen.random((2, 400)) < 0.2).astype(int)
    prob = np.clip(gen.normal(0.3 + 0.3 * y, 0.2), 0, 1)
    val, test = (y[0], prob[0]), (y[1], prob[1])
    rows = {row['target']: row for row in threshold_table(val, test, 0.5)}
    assert rows['chosen']['threshold'] == 0.5
    for row in rows.values():
        flagged = prob[1] >= row['threshold']
        _, alarms, missed, caught = confusion_matrix(y[1], flagged).ravel()
        assert (row['caught'], row['missed']) == (caught, missed)
        assert row['false_alarms'] == alarms
        expected = f1_score(y[1], flagged, average='macro')
        assert row['macro_f1'] == pytest.approx(expected)
    for share in (0.01, 0.02, 0.05, 0.1):
        threshold = rows[f'{share * 100:.0f} % alarms']['threshold']
        assert (prob[0] >= threshold).sum() <= share * 400


def test_ranking():
    found = ranking_quality([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.8])
    assert found == {'auprc': 1.0, 'auroc': 1.0, 'rec_at_k': 1.0}
    assert ranking_quality([0, 0], [0.1, 0.2])['auprc'] is None


def test_energies_of_two_kinds(fitted, graph):
    scorer = fitted.scorer_
    prepared = scorer.prepare(graph)
    kinds = graph.y.clone()
    kinds[:40] = -1
    energy = energy_descent(scorer, prepared, kinds, num_steps=3)
    assert energy.shape == (4, 2)
    expected = scorer.energies(prepared)  # after the one trained step
    for kind in (0, 1):
        mean = expected[(kinds == kind).numpy()].mean()
        assert energy[1, kind] == pytest.approx(mean, rel=1e-5)
    assert (np.diff(energy, axis=0) < 0).all()
    only = energy_descent(scorer, prepared, torch.zeros(240).long(), 1)
    assert np.isnan(only[:, 1]).all()
