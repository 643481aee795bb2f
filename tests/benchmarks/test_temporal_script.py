"""The script of docs/temporal.md: right rows and values, resumed runs."""

import csv
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.train.temporal import forecast, mean_squared_error

BENCHMARKS = Path(__file__).parents[2] / 'benchmarks'


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


@pytest.fixture
def root(tmp_path):
    """A folder with signals of three nodes, under the public names."""
    gen = np.random.default_rng(0)
    edges = np.array([[0, 1, 2], [1, 2, 0]])
    static = {'signal': gen.normal(size=(24, 3)), 'edge_index': edges}
    np.savez(tmp_path / 'chickenpox.npz', **static)
    np.savez(
        tmp_path / 'england_covid.npz',
        signal=gen.poisson(9.0, size=(28, 3)),
        edge_index=np.tile(edges, 28),
        edge_weight=gen.uniform(1.0, 9.0, size=84),
        edge_ptr=np.arange(0, 85, 3),
    )
    return tmp_path


@pytest.fixture
def run(module, monkeypatch, root):
    def main(*arguments):
        words = ['temporal', '--small', '--root', str(root), *arguments]
        monkeypatch.setattr(sys, 'argv', [*words, '--out', str(root / 'out')])
        return module('temporal').main()

    return main


def read(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def test_rows_and_report(run, root):
    methods = ('--methods', 'GCN only', 'DIFFormer-a')
    assert run('--datasets', 'chickenpox', 'england_covid', *methods) == 0
    rows = read(root / 'out.csv')
    right = [row for row in rows if row['loss'] == 'right']
    for name in ('chickenpox', 'england_covid'):
        of_set = [row for row in right if row['dataset'] == name]
        assert [row['method'] for row in of_set] == [
            'constant',
            'constant per node',
            'last value',
            'linear, shared by nodes',
            *(2 * ['GCN only', 'DIFFormer-a', 'DIFFormer-a']),
        ]
    released = {
        (row['dataset'], row['method'], row['graph']): row
        for row in rows
        if row['loss'] == 'as released'
    }
    assert len(released) == 2 * (3 + 3)
    truth = released['chickenpox', 'the truth', '']
    assert float(truth['test_mse']) == 0
    # a broadcast measures the spread of the nodes, twice for the truth
    mean = released['chickenpox', 'the truth, mean over nodes', '']
    spread = float(mean['test_released'])
    assert float(truth['test_released']) == pytest.approx(2 * spread, rel=1e-4)
    assert spread == pytest.approx(float(mean['test_mse']), rel=1e-4)
    text = (root / 'out.md').read_text()
    assert '## chickenpox, loss as released' in text
    assert text.count('| DIFFormer-a |') == 2 * 4 + 2 * 2


def test_resume_runs_only_what_is_absent(run, root, module, monkeypatch):
    few = ('--datasets', 'chickenpox', '--methods', 'mean pooling')
    assert run(*few) == 0
    assert len(read(root / 'out.csv')) == 4 + 3 + 4
    few = ('--datasets', 'chickenpox', '--methods', 'GCN only')
    assert run(*few, '--resume') == 0
    first = read(root / 'out.csv')  # with all rows, in the order of the plan
    assert len(first) == 4 + 3 + 4 + 3
    assert [row['method'] for row in first[7:9]] == [
        'GCN only',
        'mean pooling',
    ]

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module('temporal'), 'run', stop)
    assert run(*few, '--resume') == 0  # nothing to do
    assert read(root / 'out.csv') == first
    assert run('--datasets', 'chickenpox', '--resume') == 130
    assert read(root / 'out.csv') == first


def test_the_constant_is_measured_in_published_units(run, root):
    assert run('--methods', 'GCN only', '--datasets', 'england_covid') == 0
    row = read(root / 'out.csv')[1]
    assert row['method'] == 'constant per node'
    signal = np.load(root / 'england_covid.npz')['signal']
    # 20 windows of 8 values: 4 for training, 4 for validation, 12 for test
    mean = signal[8:12].mean(0)
    errors = mean - signal[16:]
    mse = np.square(errors / signal.std(0)).mean()
    assert float(row['test_mse']) == pytest.approx(mse, rel=1e-4)
    mae = np.abs(errors).mean()
    assert float(row['test_mae']) == pytest.approx(mae, rel=1e-4)


def test_the_released_loss_is_that_of_a_broadcast(module):
    script = module('_temporal')
    gen = torch.Generator().manual_seed(0)
    prediction, target = torch.randn(2, 4, 6, generator=gen)  # windows, nodes
    broadcast = [
        ((out[:, None] - y) ** 2).mean()
        for out, y in zip(prediction, target, strict=True)
    ]
    found = script.released_loss(prediction, target)
    torch.testing.assert_close(found, torch.stack(broadcast).mean())
    # it falls when all nodes get their mean, which the right one need not
    flat = prediction.mean(1, keepdim=True).expand_as(prediction)
    assert script.released_loss(flat, target) < found
    exact = script.released_loss(target, target)
    assert exact > script.released_loss(
        target.mean(1, keepdim=True).expand_as(target), target
    )
    assert mean_squared_error(target, target) == 0


def test_mean_pooling_and_gcn_are_what_they_say(module, root):
    script = module('_temporal')
    windows = script.right_task('england_covid', root).train
    lags = windows[0].x.size(1)
    model = script.build(lags, 0, mean=True, use_graph=False).eval()
    z = torch.randn(3, 4)
    for conv in model.net.convs:
        torch.testing.assert_close(conv(z), z.mean(0).expand(3, -1))
        assert not any(
            p.requires_grad for p in conv.attention.lin_query.parameters()
        )
    gcn = script.build(lags, 0, graph_weight=1.0)
    before = forecast(gcn, windows)
    for conv in gcn.net.convs:
        conv.attention.lin_key.weight.data.mul_(-3.0)
    assert torch.equal(forecast(gcn, windows), before)


def test_the_released_task_knows_the_future(module, root):
    script = module('_temporal')
    task = script.released_task('england_covid', root)
    y = torch.stack([d.y for d in (*task.train, *task.val, *task.test)])
    signal = torch.from_numpy(np.load(root / 'england_covid.npz')['signal'])
    whole = (signal - signal.double().mean(0)) / signal.double().std(
        0, correction=0
    )
    torch.testing.assert_close(y.double(), whole[8:], rtol=1e-4, atol=1e-5)
