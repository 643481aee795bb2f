"""benchmarks/ood_*.py and calibration_graph.py: right rows, resumed runs."""

import csv
import json
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.bench.store import RunFolder
from torch_energy_graph.metrics import top_label_calibration_error

BENCHMARKS = Path(__file__).parents[2] / 'benchmarks'


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Small files under the public names."""
    gen = np.random.default_rng(0)
    y = np.arange(70) % 7
    for name in ('cora', 'actor'):
        part = gen.permutation(70)[:, None] % 3 == np.arange(3)
        ends = gen.integers(70, size=(2, 300))
        np.savez(
            tmp_path / f'{name}.npz',
            x=gen.random((70, 9)).astype(np.float32),
            y=y,
            edge_index=ends,
            train_mask=part[:, :1],
            val_mask=part[:, 1:2],
            test_mask=part[:, 2:],
        )
    np.savez(
        tmp_path / 'fashion_sprite900.npz',
        x=gen.integers(256, size=(20, 28, 28)).astype(np.uint8),
        y=np.arange(20) % 10,
    )
    monkeypatch.setenv('TEG_DATA', str(tmp_path))
    return tmp_path


@pytest.fixture
def run(module, monkeypatch, root):
    def main(script, *arguments):
        words = ['--runs', root / 'runs', '--out', root / 'out', '--small']
        words = [script, *map(str, words), *arguments]
        monkeypatch.setattr(sys, 'argv', words)
        threads = torch.get_num_threads()
        try:
            return module(script).main()
        finally:
            torch.set_num_threads(threads)

    return main


def read(root):
    with open(root / 'out.csv', newline='') as file:
        return list(csv.DictReader(file))


def test_shifts_of_a_graph(run, root):
    names = ('GCN+BN', 'DIFFormer', 'GCN, variance')
    assert run('ood_graph', '--models', *names) == 0
    rows = read(root)
    assert len(rows) == len(names) * 3 * 4
    for row in rows:
        assert 0 <= float(row['auroc']) <= 1
        assert 0 <= float(row['fpr95']) <= 1
    # the same network in both rows, other nodes to tell
    one = [
        r for r in rows if r['model'] == 'GCN+BN' and r['score'] == 'energy'
    ]
    assert one[0]['accuracy'] == one[1]['accuracy']
    assert {r['shift'] for r in one} == {'structure', 'feature', 'label'}
    text = (root / 'out.md').read_text()
    assert '## cora, label' in text
    assert '| GCN, variance | propagated |' in text
    assert 'Without a result' not in text


def test_finished_units_are_not_run_again(run, root, module, monkeypatch):
    assert run('ood_graph', '--models', 'GCN') == 0
    first = (root / 'out.csv').read_text()
    files = sorted((root / 'runs' / 'units').glob('*.json'))
    assert len(files) == 2
    stored = json.loads(files[0].read_text())
    files[0].write_text(json.dumps({**stored, 'status': 'failed'}))
    calls = []
    script = module('ood_graph')
    work = script.work
    monkeypatch.setattr(script, 'work', lambda u: calls.append(u) or work(u))
    assert run('ood_graph', '--models', 'GCN') == 0
    assert [unit.key for unit in calls] == [files[0].stem]
    assert (root / 'out.csv').read_text() == first


def test_a_folder_in_use_is_a_message(run, root, capfd):
    with RunFolder(root / 'runs').lock():
        assert run('ood_graph', '--models', 'GCN') == 1
    error = capfd.readouterr().err
    assert str(root / 'runs') in error
    assert '--runs' in error
    assert not (root / 'out.csv').exists()


def test_failures_are_reported(run, root, module, monkeypatch):
    def broken(unit):
        if unit.protocol == 'label':
            raise RuntimeError('no luck')
        return [{'shift': 'structure', 'score': 'energy', 'auroc': 0.5}]

    monkeypatch.setattr(module('ood_graph'), 'work', broken)
    assert run('ood_graph', '--models', 'GCN') == 1
    text = (root / 'out.md').read_text()
    assert '- cora label split 0 seed 0 GCN: RuntimeError: no luck' in text
    assert '50.0' in text


def test_an_interrupt_is_130_and_keeps_what_is_done(
    run, root, module, monkeypatch
):
    def stop(unit):
        if unit.protocol == 'label':
            raise KeyboardInterrupt
        return [{'shift': 'structure', 'score': 'energy', 'auroc': 0.5}]

    monkeypatch.setattr(module('ood_graph'), 'work', stop)
    assert run('ood_graph', '--models', 'GCN') == 130
    assert len(read(root)) == 1


def test_calibration(run, root):
    assert run('calibration_graph', '--datasets', 'actor') == 0
    rows = read(root)
    ngebm = [row for row in rows if row['method'] == 'NG-EBM']
    assert [row['method'] for row in rows] == [
        'CE',
        'CE, temperature',
        'CE, early',
        *['NG-EBM'] * len(ngebm),
        'NG-EBM released',
    ]
    assert rows[0]['accuracy'] == rows[1]['accuracy']
    assert rows[0]['epoch'] == '3' >= rows[2]['epoch']
    text = (root / 'out.md').read_text()
    beta = re.search(r'by split: (.*)\. All', text)[1]
    (best,) = (row for row in ngebm if row['beta'] == beta)
    line = next(x for x in text.splitlines() if x.startswith('| NG-EBM |'))
    assert f'| {100 * float(best["nll"]):.1f} |' in line


def test_pooled_errors_are_those_of_all_rows(module):
    script = module('calibration_graph')
    draw = np.random.default_rng(0)
    prob = draw.dirichlet([1.0, 1.0, 1.0], size=300)
    y = draw.integers(3, size=300)
    rows = [
        {'_bins': script.bins_of(y[part], prob[part])}
        for part in (slice(0, 90), slice(90, 300))
    ]
    expected = top_label_calibration_error(y, prob, 20)
    assert script.pooled_error(rows) == pytest.approx(expected, abs=1e-12)
    sharp = np.array([[0.9, 0.1]] * 50)
    mean = np.mean(
        [
            abs(np.random.default_rng(s).binomial(50, 0.9) / 50 - 0.9)
            for s in range(2000)
        ]
    )
    assert script.least_error(sharp) == pytest.approx(mean, rel=0.3)


def test_beta_is_chosen_on_validation_nodes(module):
    choose = module('_ood_run').chosen_beta

    def row(method, accuracy, nll, beta='', seed=0):
        names = ('method', 'val_accuracy', 'val_nll', 'beta', 'seed')
        values = (method, accuracy, nll, beta, seed)
        return dict(zip(names, values, strict=True))

    rows = [
        row('CE', 0.6, 0.0),
        row('NG-EBM', 0.61, 2.0, 0.1),
        row('NG-EBM', 0.592, 1.5, 0.3),
        row('NG-EBM', 0.58, 1.0, 0.5),  # costs two points
        row('NG-EBM', 0.61, 0.5, 0.1, seed=1),
        row('NG-EBM released', 0.61, 0.5, 0.5),
    ]
    assert choose(rows) == 0.3
    assert choose([*rows, row('CE', 0.6, 0.0, seed=1)], seed=1) == 0.1
    assert choose([row('CE', 0.9, 0.0), *rows[1:]]) == 0.5  # none is allowed
    assert choose(rows[:1]) is None
    assert choose(rows[1:]) is None


def test_images(run, root, module, monkeypatch):
    parts = module('_ood_images')
    monkeypatch.setattr(parts.robustness, '__defaults__', (2,))  # steps
    assert run('ood_images', '--datasets', 'digits') == 0
    rows = read(root)
    assert [row['method'] for row in rows] == [
        'CE',
        'CE, temperature',
        *['NG-EBM'] * 3,
        'NG-EBM released',
        'JEM 20',
    ]
    for row in rows:
        assert 0 <= float(row['ece']) <= 1
        if row['method'] != 'CE, temperature':
            assert 0 <= float(row['fashion_energy']) <= 1
            assert float(row['step_ms']) > 0
            assert 0 <= float(row['linf_0.00784']) <= 1
    text = (root / 'out.md').read_text()
    assert '## digits' in text


def test_diverged_runs_are_counted(run, root, module, monkeypatch):
    script = module('ood_images')
    train = script.train

    def diverge(method, *args):
        if method == 'JEM 20':
            raise FloatingPointError('loss nan')
        return train(method, *args)

    monkeypatch.setattr(script, 'train', diverge)
    monkeypatch.setattr(script, 'TRIED', ('CE',))
    monkeypatch.setattr(script, 'ALWAYS', ('CE', 'JEM 20'))
    assert run('ood_images', '--datasets', 'digits') == 0
    assert [row['diverged'] for row in read(root)] == ['0', '', '1']
    assert '| JEM 20 | 100 |' in (root / 'out.md').read_text()


def test_other_images_have_the_shape_of_the_known_ones(module, root):
    parts = module('_ood_images')
    images = parts.images_of('digits', 40, 20, 30, 1)
    for other in images.others.values():
        assert list(other.shape[1:]) == images.shape == [1, 8, 8]
        assert other.abs().max() < 1.3
    assert len(images.val[1]) == 20
    mean = (images.test[0][1] + images.test[0][0]) / 2
    half = parts.images_of('digits', 40, 20, 30, 2)
    assert half.shape == [1, 4, 4]
    torch.testing.assert_close(
        half.test[0][0, 0, 0, 0], images.test[0][0, 0, :2, :2].mean()
    )
    gap = images.others['interpolated'][1] - mean
    assert 0.015 < gap.std() < 0.06  # noise of 0.03


def test_means_and_deviations(module):
    table = module('_ood_run').table
    rows = [
        {'name': 'a', 'v': 0.1},
        {'name': 'a', 'v': 0.3},
        {'name': 'b', 'v': None},
    ]
    assert table(rows, ('name',), ('v',)).splitlines() == [
        '| name | v |',
        '|---|---:|',
        '| a | 20.0 ± 14.1 |',
        '| b (1 of 2) | - |',
    ]
