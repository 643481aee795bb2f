"""The script of docs/graph_classification.md: folds, sizes, resumed runs."""

import csv
import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_geometric.data import Batch

from torch_energy_graph.bench.store import RunFolder

BENCHMARKS = Path(__file__).parents[2] / 'benchmarks'


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


@pytest.fixture
def parts_of(module):
    return module('_graph_classification')


@pytest.fixture
def root(tmp_path):
    """A set of 40 graphs: rings of six, or two rings of three."""
    ring = np.arange(6)
    rings = [(ring + 1) % 6, ring // 3 * 3 + (ring + 1) % 3]
    edges = [np.stack([ring, rings[i % 2]]) for i in range(40)]
    edges = [np.concatenate([e, e[::-1]], axis=1) for e in edges]
    gen = np.random.default_rng(0)
    x = gen.normal(3.0, 9.0, size=(240, 3)).astype(np.float32)
    x[:, 2] = 1.0  # a label, one-hot
    np.savez(
        tmp_path / 'rings.npz',
        x=x,
        node_ptr=np.arange(0, 241, 6),
        edge_ptr=np.arange(0, 481, 12),
        edge_index=np.concatenate(edges, axis=1),
        y=np.arange(40) % 2,
        num_node_attributes=np.array(2),
    )
    return tmp_path


@pytest.fixture
def run(module, monkeypatch, root):
    def main(*arguments):
        words = ['graphs', '--small', '--root', str(root), *arguments]
        words += ['--datasets', 'rings', '--runs', str(root / 'runs')]
        monkeypatch.setattr(sys, 'argv', [*words, '--out', str(root / 'out')])
        return module('graph_classification').main()

    return main


def read(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def test_folds_hold_every_graph_once_and_no_graph_twice(parts_of, root):
    data, num_attributes, num_classes = parts_of.load('rings', root)
    assert (num_attributes, num_classes) == (2, 2)
    for i, graph in enumerate(data):
        graph.number = i
    tested = []
    for fold in range(10):
        parts = parts_of.split(data, fold, num_attributes)
        found = {k: {g.number for g in part} for k, part in parts.items()}
        assert set.union(*found.values()) == set(range(40))
        assert sum(map(len, found.values())) == 40
        assert [len(found[k]) for k in ('train', 'val', 'test')] == [32, 4, 4]
        assert sum(int(g.y) for g in parts['test']) == 2
        tested += sorted(found['test'])
    assert sorted(tested) == list(range(40))


def test_attributes_are_scaled_by_training_graphs(parts_of, root):
    data, num_attributes, _ = parts_of.load('rings', root)
    before = data[0].x.clone()
    parts = parts_of.split(data, 3, num_attributes)
    x = torch.cat([graph.x for graph in parts['train']])
    zero, one = torch.zeros(2), torch.ones(2)
    torch.testing.assert_close(x[:, :2].mean(0), zero, atol=1e-5, rtol=0)
    torch.testing.assert_close(x[:, :2].std(0), one)
    assert (x[:, 2] == 1).all()
    test = torch.cat([graph.x for graph in parts['test']])
    assert (test[:, :2].mean(0).abs() > 1e-3).all()
    assert torch.equal(data[0].x, before)


@pytest.mark.parametrize('sizes', [(7, 2), (37, 2), (21, 6)])
def test_models_have_equally_many_parameters(parts_of, sizes):
    counts = [
        parts_of.count(parts_of.build(name, *sizes))
        for name in ('EnergyTransformer', *parts_of.PEERS)
    ]
    assert max(counts) <= 1.05 * min(counts)


def test_graphs_of_a_batch_do_not_meet(parts_of, root):
    data, _, _ = parts_of.load('rings', root)
    torch.manual_seed(0)
    for name in ('EnergyTransformer', *parts_of.PEERS):
        model = parts_of.build(name, 3, 2).eval()
        together = model(Batch.from_data_list(data[:5]))
        alone = [model(Batch.from_data_list([graph])) for graph in data[:5]]
        torch.testing.assert_close(together, torch.cat(alone))


def test_attention_between_all_pairs_of_small_graphs_only(parts_of, root):
    data, _, _ = parts_of.load('rings', root)
    assert [parts_of.name_of(name, data) for name in parts_of.MODELS] == list(
        parts_of.MODELS
    )
    large = data[0].clone()
    large.x = torch.zeros(201, 3)
    assert parts_of.name_of('GPS', [*data, large]) == 'GPS, Performer'
    assert parts_of.name_of('GIN', [*data, large]) == 'GIN'


def test_training_keeps_the_epoch_of_the_least_loss(parts_of, root):
    data, num_attributes, num_classes = parts_of.load('rings', root)
    parts = parts_of.split(data, 0, num_attributes)
    settings = {**parts_of.TRAINING, 'lr': [0.0, 0.01], 'batch_size': 8}
    row = parts_of.run_fold('GIN', parts, num_classes, 12, 0, settings)
    assert row['lr'] == 0.01  # the other learns nothing
    assert row['tried'].keys() == {'0.0', '0.01'}
    assert row['tried']['0.01'] < row['tried']['0.0']
    assert 1 <= row['best_epoch'] <= 12
    assert row['test']['accuracy'] == 1.0
    again = parts_of.run_fold('GIN', parts, num_classes, 12, 0, settings)
    assert again['val'] == row['val']  # the same seed
    assert row['val']['loss'] <= row['tried']['0.01']


def test_rows_and_report(run, root):
    assert run() == 0
    rows = read(root / 'out.csv')
    assert [(row['model'], row['fold']) for row in rows] == [
        (model, fold)
        for fold in '01'
        for model in ('EnergyTransformer', 'GIN', 'GCN', 'GPS')
    ]
    sizes = [int(row['num_parameters']) for row in rows]
    assert max(sizes) <= 1.05 * min(sizes)
    text = (root / 'out.md').read_text()
    assert '3 epochs; graphs: 4 val, 4 test, 32 train (fold 0)' in text
    for row in rows[:4]:
        other = next(r for r in rows[4:] if r['model'] == row['model'])
        mean = 50 * (float(row['accuracy']) + float(other['accuracy']))
        assert f'| {row["model"]} | {mean:.1f} ±' in text
    assert text.count('to ') >= 3  # an interval per other model


def test_a_second_run_goes_on(run, root, module, monkeypatch):
    assert run('--models', 'GCN', '--folds', '1') == 0
    file = next((root / 'runs/units').glob('*.json'))
    row = json.loads(file.read_text())
    row['test']['accuracy'] = 0.123
    file.write_text(json.dumps(row))
    script, done = module('graph_classification'), []
    fold = script.run_fold

    def stop(name, *args):
        if done:
            raise KeyboardInterrupt
        done.append(name)
        return fold(name, *args)

    monkeypatch.setattr(script, 'run_fold', stop)
    assert run('--models', 'GIN', 'GCN') == 130
    assert done == ['GIN']
    done.clear()
    monkeypatch.setattr(script, 'run_fold', fold)
    assert run('--models', 'GIN', 'GCN') == 0
    kept = {(r['model'], r['fold']): r for r in read(root / 'out.csv')}
    assert len(kept) == 4
    assert kept['GCN', '0']['accuracy'] == '0.1230'


def test_an_impossible_number_of_folds(run):
    with pytest.raises(SystemExit) as caught:
        run('--folds', '11')
    assert caught.value.code == 2


def test_a_folder_in_use_is_a_message(run, root, capfd):
    with RunFolder(root / 'runs').lock():
        assert run() == 1
    error = capfd.readouterr().err
    assert str(root / 'runs') in error
    assert '--runs' in error
