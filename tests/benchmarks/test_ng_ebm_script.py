"""benchmarks/speed/ng_ebm.py: right rows and gates, not times."""

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
        script = module('ng_ebm')
        monkeypatch.setattr(script, 'run_job', run_job)
        monkeypatch.setattr(sys, 'argv', ['ng_ebm', '--small', *arguments])
        threads = torch.get_num_threads()
        try:
            return script.main()
        finally:
            torch.set_num_threads(threads)

    return main


def test_all_cases(run, tmp_path, capsys):
    out = tmp_path / 'rows.csv'
    assert run('--out', str(out)) == 0
    with open(out, newline='') as file:
        rows = list(csv.DictReader(file))
    found = {(row['case'], row['method']) for row in rows}
    heads = {case for case, method in found if method == 'NG-EBM latent'}
    assert heads == {'wrn', 'gcn+head', 'cora+head'}
    assert len(found) == len(rows) == 5 * 4 + 3
    shown = capsys.readouterr().out
    for row in rows:
        assert row['case'] in shown
        assert float(row['step_cpu_s']) > 0
        assert torch.isfinite(torch.tensor(float(row['loss'])))
        if row['method'] == 'cross-entropy':
            assert float(row['ratio']) == 1
    # the models are the ones that the table names
    size = {row['case']: int(row['parameters']) for row in rows}
    assert size['gcn'] == 8 * 64 + 64 + 64 * 3 + 3
    assert size['gcn+head'] == 8 * 64 + 64 + 64 * 65 + 64 * 3 + 3


def rows_at(case, threads=1, **ratios):
    names = {
        'ng': 'NG-EBM',
        'latent': 'NG-EBM latent',
        'jem': 'JEM',
    }
    ratios = {'cross-entropy': 1.0} | {
        names[key]: value for key, value in ratios.items()
    }
    return [
        {
            'case': case,
            'threads': threads,
            'jem_steps': 20,
            'method': name,
            'ratio': value,
        }
        for name, value in ratios.items()
    ]


def test_gates(module):
    gates_of = module('ng_ebm').gates_of
    assert all(gate.holds for gate in gates_of(rows_at('wrn', ng=2.4, jem=17)))
    slow = gates_of(rows_at('wrn', ng=2.6, jem=15))
    assert [gate.holds for gate in slow] == [False, False]
    assert 'FAILS' in str(slow[0])
    assert '<= 2.5x' in str(slow[0])
    assert '>= 6x' in str(slow[1])
    assert [g.holds for g in gates_of(rows_at('gcn', ng=3.4, jem=21))] == [
        True,
        True,
    ]
    (gate,) = gates_of(rows_at('cora+head', latent=1.8))
    assert not gate.holds
    assert gates_of(rows_at('gcn', threads=2, ng=9, jem=1)) == []
