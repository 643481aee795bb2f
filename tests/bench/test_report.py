import csv

import pytest

from torch_energy_graph.bench import RunFolder, Unit, write_report
from torch_energy_graph.bench.report import METRICS


def unit_of(model, split, dataset='tiny'):
    return Unit(dataset, model, 'et-40pct', split, 0, {})


def row_of(auprc, **extra):
    metrics = dict.fromkeys(METRICS, 0.5) | {'auprc': auprc, 'ece': auprc}
    part = {'nodes': 1200, 'anomalies': 10}
    return {
        'status': 'ok',
        'split': {'seed': 0, 'train': part, 'val': part, 'test': part},
        'val': metrics,
        'test': metrics,
        'seconds': 2.0,
        'memory_start_mib': 100.0,
        'memory_peak_mib': 130.0,
        'num_parameters': 1234,
        'versions': {'torch': '2.13.0'},
        'git': None,
        'threads': 1,
        **extra,
    }


def failed_row():
    return {
        'status': 'failed',
        'error': 'ValueError: no luck',
        'versions': {'torch': '2.13.0'},
        'git': None,
        'threads': 1,
    }


def filled(path):
    folder = RunFolder(path)
    units = [
        unit_of(m, s) for s in (0, 1, 2) for m in ('zeta', 'alpha', 'beta')
    ]
    folder.write_plan(units, {'name': 'r', 'command': 'teg bench run r.yaml'})
    for unit, value in zip(units[::3], (0.2, 0.4, 0.6), strict=True):
        folder.write(unit, row_of(value))
    folder.write(units[1], row_of(0.3))
    folder.write(units[4], failed_row())
    folder.write(unit_of('other', 0), row_of(1.0))
    return folder, units


def test_markdown(tmp_path):
    text = write_report(filled(tmp_path)[0])
    assert text == (tmp_path / 'report.md').read_text()
    lines = text.splitlines()
    zeta = next(line for line in lines if line.startswith('| zeta'))
    alpha = next(line for line in lines if line.startswith('| alpha'))
    beta = next(line for line in lines if line.startswith('| beta'))
    # mean and sample standard deviation of .2 .4 .6; ECE: less is better
    assert zeta.split(' | ')[1] == '**0.400** ± 0.200 (3)'
    assert zeta.split(' | ')[5] == '0.400 ± 0.200 (3)'
    assert zeta.split(' | ')[6:] == ['2.0', '30', '1,234', '3 of 3 |']
    assert alpha.split(' | ')[1] == '0.300 (1)'
    assert alpha.split(' | ')[5] == '**0.300** (1)'
    assert alpha.endswith('| 1 of 3 |')
    assert beta.split(' | ')[1] == '-'
    # the order is the plan's, not the alphabet's
    assert lines.index(zeta) < lines.index(alpha) < lines.index(beta)
    assert '- failed: alpha, split 1, seed 0: ValueError: no luck' in lines
    assert '- not run: beta, 3 units' in lines
    assert '- not run: alpha, split 2, seed 0' in lines
    only = '--only dataset=tiny,protocol=et-40pct,model=MODEL'
    assert f'One row: `teg bench run r.yaml {only}`.' in lines
    assert 'Made by `teg bench run r.yaml`.' in lines
    assert '1 results of other settings' in text
    assert 'Split 0: 1,200 training nodes (10 anomalous)' in text


def test_csv_has_one_line_per_unit(tmp_path):
    folder, units = filled(tmp_path)
    write_report(folder)
    with open(tmp_path / 'results.csv', newline='') as file:
        lines = list(csv.DictReader(file))
    assert [line['model'] for line in lines] == [u.model for u in units]
    assert [line['status'] for line in lines] == [
        *('ok', 'ok', 'not run'),
        *('ok', 'failed', 'not run'),
        *('ok', 'not run', 'not run'),
    ]
    assert float(lines[0]['test_auprc']) == 0.2
    assert float(lines[0]['val_auprc']) == 0.2
    assert lines[0]['num_parameters'] == '1234'
    assert lines[4]['error'] == 'ValueError: no luck'
    assert lines[4]['test_auprc'] == ''


def test_the_same_results_give_the_same_bytes(tmp_path):
    for name in ('a', 'b'):
        write_report(filled(tmp_path / name)[0])
    for name in ('results.csv', 'report.md'):
        first, second = ((tmp_path / x / name).read_bytes() for x in 'ab')
        assert first == second


def test_several_tables_are_ranked_and_drawn(tmp_path):
    pytest.importorskip('matplotlib')
    folder = RunFolder(tmp_path)
    units = [unit_of(m, 0, d) for d in 'ab' for m in ('histgb', 'et')]
    folder.write_plan(units, {'name': 'r', 'command': 'c'})
    for unit, value in zip(units, (0.2, 0.4, 0.6, 0.9), strict=True):
        folder.write(unit, row_of(value))
    text = write_report(folder)
    assert 'over 2 tables: et 1.00, histgb 2.00.' in text
    assert text.count('AUPRC minus that of `histgb`') == 2
    assert '| et | +0.200 | - | 1 |' in text
    first = (tmp_path / 'ranking.svg').read_bytes()
    assert b'histgb' in first
    write_report(folder)
    assert (tmp_path / 'ranking.svg').read_bytes() == first
