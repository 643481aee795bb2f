"""The scripts of docs/mil.md: right rows, resumed runs, right baselines."""

import csv
import json
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.datasets.bags import Bags

BENCHMARKS = Path(__file__).parents[2] / 'benchmarks'


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


@pytest.fixture
def start(module, monkeypatch):
    def main(name, *arguments):
        words = [name, '--small', *map(str, arguments)]
        monkeypatch.setattr(sys, 'argv', words)
        return module(name).main()

    return main


def bags_with_witness(num_bags=24, seed=0):
    """In class 1, one instance is far out in feature 0."""
    gen = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 6, (num_bags,), generator=gen)
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    x = torch.randn(int(ptr[-1]), 4, generator=gen)
    y = torch.arange(num_bags) % 2
    x[ptr[:-1], 0] += 6.0 * y
    return Bags(x, ptr, y)


@pytest.fixture
def root(tmp_path):
    bags = bags_with_witness()
    (tmp_path / 'mil').mkdir()
    np.savez(
        tmp_path / 'mil' / 'tiger.npz',
        x=bags.x.numpy(),
        bag_ptr=bags.ptr.numpy(),
        y=bags.y.numpy(),
    )
    return tmp_path


def read(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def mil(start, root, *arguments):
    places = ('--root', root, '--units', root / 'u', '--out', root / 'out')
    return start('mil', *arguments, *places)


def test_mil_rows_and_report(start, module, root):
    assert mil(start, root, '--sets', 'tiger') == 0
    rows, methods = read(root / 'out.csv'), module('mil').METHODS
    assert [row['method'] for row in rows] == np.repeat(methods, 3).tolist()
    for row in rows:
        assert 0 <= float(row['auc']) <= 1
        epochs = ('',) if row['method'] == 'MI-SVM' else ('1', '2', '3', '4')
        assert row['epoch'] in epochs
    svm = [float(r['auc']) for r in rows if r['method'] == 'MI-SVM']
    assert np.mean(svm) > 0.9
    text = (root / 'out.md').read_text()
    line = next(x for x in text.splitlines() if x.startswith('| MI-SVM'))
    mean, deviation = np.mean(svm), np.std(svm, ddof=1)
    assert f'{mean:.3f} ± {deviation:.3f}' in line
    assert 'Hopfield minus the method of the row' in text


def test_mil_runs_only_what_is_absent(start, module, root, monkeypatch):
    few = ('--sets', 'tiger', '--methods', 'mean')
    assert mil(start, root, *few) == 0
    first = (root / 'out.csv').read_text()
    (unit,) = (root / 'u').glob('*.json')
    assert len(json.loads(unit.read_text())['folds']) == 3

    def stop(*args):
        raise KeyboardInterrupt

    script = module('mil')
    monkeypatch.setattr(script, 'run', stop)
    assert mil(start, root, *few) == 0
    assert (root / 'out.csv').read_text() == first
    assert mil(start, root, '--sets', 'tiger', '--methods', 'max') == 130
    monkeypatch.setitem(module('_mil').TRAINING, 'lr', 1.0)  # another unit
    assert mil(start, root, *few) == 130


def test_padding_to_huge_bags_runs_once(module):
    script = module('mil')
    args = Namespace(sets=['tiger', 'musk2'], methods=['mean'], repeats=5)
    assert len([*script.plan(args)]) == 10
    args.methods = ['set transformer']
    units = [*script.plan(args)]
    assert [unit[0] for unit in units] == ['tiger'] * 5 + ['musk2']


def test_paired_differences(module):
    unit = {'dataset': 'a', 'repeat': 0, 'cpu_seconds': 6.0}
    ours, theirs = [0.75, 1.0, 0.5], [0.5, 1.0, 1.0]
    units = [
        {**unit, 'method': name, 'folds': [{'auc': auc} for auc in values]}
        for name, values in (('Hopfield', ours), ('mean', theirs))
    ]
    text = module('mil').report(units, 'x')
    difference = np.subtract(ours, theirs)
    cell = f'{difference.mean():+.3f} ± {difference.std(ddof=1):.3f}'
    assert f'| mean | {cell} |' in text
    assert '| Hopfield | 0.750 ± 0.250 | 0.750 |' in text


def test_networks_differ_in_their_pooling_only(module):
    script = module('_mil')
    bags = bags_with_witness()
    for name, build in script.NETWORKS.items():
        torch.manual_seed(0)
        model = build('musk1', 0.0, 4).eval()
        first = next(model.mlp.parameters())
        assert first.shape == (script.WIDTH, 4), name
        out = model(bags.x, bags.batch, len(bags))
        assert out.shape == (24, 2)
        alone = bags.select(torch.tensor([5]))
        torch.testing.assert_close(
            model(alone.x, alone.batch, 1), out[5:6], rtol=1e-4, atol=1e-5
        )
    found = {
        str(script.described(method, name))
        for method in script.METHODS
        for name in ('musk1', 'musk2')
    }
    assert len(found) == len(script.METHODS) + 1  # one has no encoder there


def test_mi_svm_finds_the_witness(module):
    script, bags = module('_mil'), bags_with_witness(60)
    train, y = torch.arange(40), bags.y.numpy()
    (scores,) = script.mi_svm(0.1, bags, train)
    assert scores.shape == (60,)
    assert scores[40:][y[40:] == 1].min() > scores[40:][y[40:] == 0].max()
    flipped = bags.y.clone()
    flipped[40:] = 1 - flipped[40:]
    other = script.mi_svm(0.1, Bags(bags.x, bags.ptr, flipped), train)[0]
    np.testing.assert_array_equal(other, scores)


def test_toy_tasks(start, module, tmp_path):
    for part in ('train_20k', 'test'):
        digits = np.arange(40, dtype=np.uint8) % 10
        images = np.full((40, 28, 28), 20, np.uint8) * digits[:, None, None]
        np.savez(tmp_path / f'mnist_{part}.npz', x=images, y=digits)
    out = tmp_path / 'toy'
    assert start('bit_pattern', '--root', tmp_path, '--out', out) == 0
    rows = read(out.with_suffix('.csv'))
    script = module('bit_pattern')
    assert [(row['task'], row['method']) for row in rows] == [
        (task, method) for task in script.TASKS for method in script.METHODS
    ]
    assert all(0 <= float(row['accuracy']) <= 1 for row in rows)
    text = out.with_suffix('.md').read_text()
    assert text.count('| Hopfield') == 4
    train, test = script.bit_patterns(True, None)
    assert (len(train), len(test)) == (96, 32)
    assert train.y.bincount().tolist() == [48, 48]
    assert test.y.bincount().tolist() == [16, 16]


def test_memory_of_huge_bags(start, tmp_path):
    out = tmp_path / 'rows.jsonl'
    assert start('mil_memory', '--out', out) == 0
    (row,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert (row['bags'], row['size'], row['top_k']) == (2, 1_000, 0.1)
    assert row['losses'][1] < row['losses'][0]
    assert row['peak_mib'] > 0
