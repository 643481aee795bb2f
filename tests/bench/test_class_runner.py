"""The whole path of node classification: plan, run, tune, report."""

import csv
import json

import numpy as np
import pytest
import torch

from torch_geometric.data import Data

from torch_energy_graph.bench import (
    CLASSES,
    BenchConfig,
    ConfigError,
    Group,
    Prediction,
    RunFolder,
    Task,
    Tuning,
    Unit,
    evaluate,
    get_protocol,
    plan,
    register_dataset,
    register_model,
    run,
    write_report,
)


def blobs():
    gen = torch.Generator().manual_seed(0)
    y = torch.arange(3).repeat(40)
    x = 2 * torch.eye(3)[y] + torch.randn(120, 3, generator=gen)
    edge_index = torch.randint(120, (2, 200), generator=gen)
    return Data(x=x, edge_index=edge_index, y=y)


register_dataset('blobs')(blobs)


@register_model('nearest_mean', CLASSES)
def nearest_mean(
    data, split, seed, *, sharpness: float = 1.0, shift: int = 0
) -> Prediction:
    assert (data.y[split.test] == -1).all()
    means = torch.stack(
        [
            data.x[split.train & (data.y == label)].mean(0)
            for label in range(split.classes)
        ]
    )
    logits = -sharpness * torch.cdist(data.x, means)
    scores = logits.double().softmax(-1).roll(shift, dims=-1)
    return Prediction(scores.numpy(), {'best_epoch': 1})


@register_model('two_classes', CLASSES)
def two_classes(data, split, seed) -> Prediction:
    return Prediction(np.full((data.num_nodes, 2), 0.6))


def config_of(models, **kwargs):
    group = Group(('blobs',), 'random-60-20-20', (0, 1))
    return BenchConfig('blobs', (group,), models, **kwargs)


def test_a_group_may_have_seeds_of_its_own():
    groups = (
        Group(('blobs',), 'random-60-20-20', (0, 1)),
        Group(('blobs',), 'per-class-10', (0,), seeds=(4, 5, 6)),
    )
    config = BenchConfig('x', groups, {'nearest_mean': {}}, seeds=(1,))
    seeds = [(unit.split, unit.seed) for unit in plan(config)]
    assert seeds == [(0, 1), (1, 1), (0, 4), (0, 5), (0, 6)]
    with pytest.raises(ConfigError, match="'seeds': expected at least one"):
        Group(('blobs',), 'public', (0,), seeds=())


def test_a_row_has_the_measures_of_classes():
    unit = Unit('blobs', 'nearest_mean', 'random-60-20-20', 1, 0, {})
    task = Task(blobs())
    row = json.loads(json.dumps(evaluate(unit, task)))
    split = get_protocol('random-60-20-20').split(task, 1)
    masked = blobs()
    masked.y[split.test] = -1
    scores = nearest_mean(masked, split, 0).scores
    y, test = task.data.y.numpy(), split.test.numpy()
    right = (scores.argmax(1) == y)[test].mean()
    assert row['test']['accuracy'] == pytest.approx(right)
    assert set(row['val']) == {'accuracy', 'macro_f1', 'ece'}
    assert 'threshold' not in row
    assert row['split']['test'] == {'nodes': 24, 'classes': [8, 8, 8]}


def test_poisoned_test_labels_change_test_measures_only():
    clean = Task(blobs())
    split = get_protocol('random-60-20-20').split(clean, 0)
    masks = {'official': tuple(m.unsqueeze(1) for m in masks_of(split))}
    poisoned = blobs()
    poisoned.y[split.test] = (poisoned.y[split.test] + 1) % 3
    for model in ('nearest_mean', 'gcn_tuned', 'difformer'):
        params = {} if model == 'nearest_mean' else {'epochs': 3}
        unit = Unit('blobs', model, 'public', 0, 0, params)
        rows = [
            evaluate(unit, Task(data, masks)) for data in (blobs(), poisoned)
        ]
        assert rows[0]['val'] == rows[1]['val']
        assert rows[0]['best_epoch'] == rows[1]['best_epoch']
        assert rows[0]['test'] != rows[1]['test']


def masks_of(split):
    return split.train, split.val, split.test


def test_models_and_protocols_must_have_one_goal():
    with pytest.raises(ConfigError, match=r'needs a model that tells classes'):
        plan(config_of({'logreg': {}}))
    group = Group(('digits_outlier',), 'et-40pct', (0,))
    config = BenchConfig('x', (group,), {'gcn_cls': {}})
    with pytest.raises(ConfigError, match=r"tells anomalies \(got 'gcn_cls'"):
        plan(config)


def test_bad_scores_fail_with_a_reason(tmp_path):
    folder = RunFolder(tmp_path)
    units = plan(config_of({'two_classes': {}}))
    assert run(folder, units).failed == 2
    assert 'off by 0.2' in folder.read(units[0])['error']


def test_tuning_chooses_by_accuracy(tmp_path):
    tuning = Tuning({'nearest_mean': {'shift': ('1', '0', '2')}}, 4)
    config = config_of({'nearest_mean': {'shift': '1'}}, tuning=tuning)
    folder = RunFolder(tmp_path)
    units = plan(config)
    assert run(folder, units).done == 2
    row = folder.read(units[1])
    assert row['params']['shift'] == 0
    assert row['tuning']['tries'] == 3
    assert row['tuning']['val_accuracy'] > 0.7


def test_the_report_of_classes(tmp_path):
    folder = RunFolder(tmp_path)
    models = {'nearest_mean': {}, 'gcn_tuned': {'epochs': 3}}
    units = plan(config_of(models))
    folder.write_plan(units, {'name': 'blobs', 'command': 'teg'})
    assert run(folder, units).failed == 0
    text = write_report(folder)
    assert '| model | accuracy | macro-F1 | ECE | seconds |' in text
    assert 'the epoch is chosen on validation nodes' in text
    assert 'Split 0: 72 training nodes, 24 validation nodes' in text
    assert 'Accuracy minus that of `gcn_tuned`, the GCN with' in text
    with open(tmp_path / 'results.csv', newline='') as file:
        lines = list(csv.DictReader(file))
    assert 'test_auprc' not in lines[0]
    row = folder.read(units[0])
    assert float(lines[0]['test_accuracy']) == row['test']['accuracy']


def test_anomalies_and_classes_share_a_report(tmp_path):
    groups = (
        Group(('blobs',), 'random-60-20-20', (0,)),
        Group(('digits_outlier',), 'et-40pct', (0,)),
    )
    folder = RunFolder(tmp_path)
    units = [
        Unit('blobs', 'nearest_mean', groups[0].protocol, 0, 0, {}),
        Unit('digits_outlier', 'logreg', groups[1].protocol, 0, 0, {}),
    ]
    folder.write_plan(units, {'name': 'both', 'command': 'teg'})
    assert run(folder, units).done == 2
    text = write_report(folder)
    assert '| model | accuracy |' in text
    assert '| model | AUPRC |' in text
