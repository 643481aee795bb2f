"""The script about the detector: its rows, beside the benchmark."""

import csv
import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / 'benchmarks'


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module('detector')


def test_rows_of_a_small_run(script, monkeypatch, tmp_path):
    words = ['detector.py', '--small', '--datasets', 'digits_outlier']
    words += ['--runs', str(tmp_path / 'runs'), '--out', str(tmp_path / 'out')]
    monkeypatch.setattr(sys, 'argv', words)
    assert script.main() == 0
    with open(tmp_path / 'out.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    names = [row['calibration'] for row in rows]
    assert names == ['none', 'sigmoid', 'temperature', 'isotonic']
    plain, moved, scaled, _ = rows
    assert (
        plain['auprc'] == moved['auprc'] == scaled['auprc']
    )  # the order stays
    assert float(scaled['nll']) < float(plain['nll'])
    assert '| digits_outlier | isotonic |' in (tmp_path / 'out.md').read_text()


def test_benchmark_scores_are_those_of_et(script, tmp_path):
    path = tmp_path / 'fraud.csv'
    path.write_text(
        'dataset,model,protocol,split,test_auprc\n'
        'tolokers,et,official,3,0.5\n'
        'tolokers,gcn,official,3,0.4\n'
        'tolokers,et,official,4,\n'
    )
    expected = {('tolokers', 'official', 3): 0.5}
    assert script.benchmark_scores(path) == expected
    assert script.benchmark_scores(tmp_path / 'absent.csv') == {}
