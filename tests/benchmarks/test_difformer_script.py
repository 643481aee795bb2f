"""benchmarks/speed/difformer.py: right rows, values and gates, not times."""

import csv
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

SPEED = Path(__file__).parents[2] / 'benchmarks' / 'speed'


@pytest.fixture
def module(monkeypatch):
    """Imports a module of the folder, as its scripts do."""
    monkeypatch.syspath_prepend(str(SPEED))
    return import_module


@pytest.fixture
def run(module, monkeypatch):
    """Runs the script; its jobs run here, through JSON as in a process."""

    def run_job(script, job):
        rows = module(Path(script).stem).work(json.loads(json.dumps(job)))
        return [json.loads(json.dumps(row)) for row in rows]

    def main(*arguments):
        script = module('difformer')
        for holder in (script, module('_jobs')):
            monkeypatch.setattr(holder, 'run_job', run_job)
        monkeypatch.setattr(sys, 'argv', ['difformer', '--small', *arguments])
        threads = torch.get_num_threads()
        try:
            return script.main()
        finally:
            torch.set_num_threads(threads)

    return main


def read_csv(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def test_layers(run, tmp_path, capsys):
    out = tmp_path / 'rows.csv'
    assert run('--heads', '2', '--out', str(out)) == 0
    rows = read_csv(out)
    assert {(row['nodes'], row['edges']) for row in rows} == {
        ('500', '0'),
        ('500', '2500'),
    }
    shown = capsys.readouterr().out
    ran = [row for row in rows if not row['note']]
    for row in ran:
        assert row['method'] in shown
        assert float(row['train_cpu_s']) > 0
        if row['error']:
            # the released form itself loses digits
            assert float(row['error']) < 1e-2
    ours = [row for row in ran if row['method'].startswith('teg global')]
    assert len(ours) == 3
    # our own rounding, against float64
    assert all(float(row['difference']) < 1e-5 for row in ours)
    without = [row['method'] for row in ran if row['edges'] == '0']
    assert {'SGFormerAttention', 'PerformerAttention'} <= set(without)


def test_scaling(run, tmp_path, capsys):
    out = tmp_path / 'rows.csv'
    assert run('--scaling', '--out', str(out)) == 0
    rows = read_csv(out)
    assert [row['nodes'] for row in rows] == ['200', '400']
    for row in rows:
        assert row['layers'] == '2'
        assert 0 < float(row['loss']) < 5
        assert float(row['step_cpu_s']) > 0
    assert '200' in capsys.readouterr().out


def rows_at(heads, edges, ratios, memory=(100.0, 40.0)):
    names = ('released form', *ratios)
    return [
        {
            'method': name,
            'nodes': 100_000,
            'channels': 64,
            'threads': 1,
            'heads': heads,
            'edges': edges,
            'train_ratio': ratios.get(name, 1.0),
            'peak_train_mib': memory[name != 'released form'],
            'note': None,
        }
        for name in names
    ]


def test_gates(module):
    gates_of = module('_difformer_gates').gates_of
    good = rows_at(
        4, 0, {'teg global': 8.0, 'teg node': 2.0, 'SGFormerAttention': 0.9}
    )
    assert len(gates_of(good)) == 4
    assert all(gate.holds for gate in gates_of(good))
    slow = gates_of(rows_at(4, 0, {'teg global': 6.9, 'teg node': 0.9}))
    assert [gate.holds for gate in slow] == [False, True, False]
    assert 'FAILS' in str(slow[0])
    assert 'goal 9x' in str(slow[0])
    large = gates_of(rows_at(1, 9, {'teg global': 2.1}, (100.0, 51.0)))
    assert [gate.holds for gate in large] == [True, False]
    small = rows_at(1, 9, {'teg global': 0.1})
    small[0]['nodes'] = 500
    assert gates_of(small) == []


def test_released_form_is_diffusion_attention(module):
    peers = module('_difformer_peers')
    for degree in (0, 5):
        problem = peers.Problem.draw(50, 8, 2, degree)
        sides = peers.all_methods()
        out = [
            sides[name](problem) for name in ('released form', 'teg global')
        ]
        right, ours = ([*side.value(), *side.gradients()] for side in out)
        for a, b in zip(right, ours, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
