"""The scripts of benchmarks/speed: right rows and values, not times."""

import csv
import json
import os
import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

import pytest
import torch

from torch_energy_graph.ops import energy_attention

SPEED = Path(__file__).parents[2] / 'benchmarks' / 'speed'


@pytest.fixture
def module(monkeypatch):
    """Imports a module of the folder, as its scripts do."""
    monkeypatch.syspath_prepend(str(SPEED))
    return import_module


@pytest.fixture
def run(module, monkeypatch):
    """Runs a script; its jobs run here, through JSON as in a process."""

    def run_job(script, job):
        work = module(Path(script).stem).work
        rows = work(json.loads(json.dumps(job)))
        return [json.loads(json.dumps(row)) for row in rows]

    def main(name, *arguments):
        script = module(name)
        for holder in (script, module('_jobs')):
            monkeypatch.setattr(holder, 'run_job', run_job, raising=False)
        monkeypatch.setattr(sys, 'argv', [name, '--small', *arguments])
        threads = torch.get_num_threads()
        try:
            return script.main()
        finally:
            torch.set_num_threads(threads)

    return main


def read_csv(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_energy_attention(run, tmp_path, capsys):
    out = tmp_path / 'rows.csv'
    for _ in range(2):  # the second run appends
        assert run('energy_attention', '--out', str(out)) == 0
    rows = read_csv(out)
    names = [row['method'] for row in rows]
    assert names[0] == 'pyg softmax'
    assert names[: len(names) // 2] == names[len(names) // 2 :]
    assert {'teg torch', 'GATConv', 'TransformerConv'} <= set(names)
    shown = capsys.readouterr().out
    for row in rows:
        assert row['method'] in shown
        assert (row['nodes'], row['edges']) == ('300', '6000')
        if row['note']:
            assert 'not installed' in row['note']
            continue
        assert float(row['forward_cpu_s']) > 0
        assert float(row['peak_train_mib']) >= 0
        other = 'Conv' in row['method']
        assert other or float(row['difference']) < 1e-5
        assert not (other and row['difference'])


def test_energy_attention_refuses_unknown_methods(run):
    with pytest.raises(SystemExit, match=r"no method .*'gpt'"):
        run('energy_attention', '--methods', 'pyg softmax', 'gpt')


def test_scatter_softmax(run, tmp_path):
    out = tmp_path / 'rows.csv'
    assert run('scatter_softmax', '--out', str(out)) == 0
    rows = read_csv(out)
    assert {row['layout'] for row in rows} == {'unsorted', 'sorted', 'ptr'}
    for row in rows:
        assert row['note'] or float(row['difference']) < 1e-6
    assert sum(not row['note'] for row in rows) >= 6


def test_hopfield_pooling(run, tmp_path):
    out = tmp_path / 'rows.csv'
    assert run('hopfield_pooling', '--out', str(out)) == 0
    rows = read_csv(out)
    assert {(row['bags'], row['steps']) for row in rows} == {
        (bags, steps) for bags in ('uniform', 'skewed') for steps in '13'
    }
    for row in rows:
        assert float(row['difference']) < 1e-5
        assert float(row['train_cpu_s']) > 0


def test_hopfield_pooling_memory(run, tmp_path):
    out = tmp_path / 'rows.jsonl'
    assert run('hopfield_pooling', '--memory', '--out', str(out)) == 0
    (row,) = read_lines(out)
    assert (row['num_bags'], row['size']) == (2, 1_000)
    assert 0 < row['last_loss'] < row['first_loss'] < 10
    assert row['peak_mib'] >= row['elements_mib']


def test_et_epoch(run, tmp_path):
    out = tmp_path / 'rows.csv'
    assert run('et_epoch', '--epochs', '2', '--out', str(out)) == 0
    first, *others = read_csv(out)
    assert first['backend'] == 'reference'
    assert 'torch' in {row['backend'] for row in others}
    for row in others:
        assert float(row['loss_difference']) < 1e-5
        assert float(row['last_loss']) > 0


def test_large_graphs(run, tmp_path):
    out = tmp_path / 'rows.jsonl'
    assert run('large_graphs', '--threads', '1', '--out', str(out)) == 0
    finance, social = read_lines(out)
    assert (finance['nodes'], finance['edges']) == (39, 42_445)
    assert (social['nodes'], social['edges']) == (5_781, 146_211)
    assert 0 < finance['loss'] < 10
    assert social['rms_update'] > 0
    assert finance['peak_after_backward_mib'] > 0


def test_rows_that_disagree_fail(module, capsys):
    report = module('_table').report
    rows = [{'difference': None}, {'difference': 1e-3}]
    assert report([rows], lambda rows: None, None) == 1
    assert 'disagree by 1e-03' in capsys.readouterr().out


def test_a_csv_of_other_columns_is_refused(module, tmp_path):
    append_rows, path = module('_jobs').append_rows, tmp_path / 'rows.csv'
    append_rows(path, [{'a': 1, 'b': 0.123456789}])
    append_rows(path, [{'a': 2, 'b': None}])
    assert path.read_text() == 'a,b\n1,0.123457\n2,\n'
    with pytest.raises(ValueError, match='other columns'):
        append_rows(path, [{'a': 3}])
    assert [entry.name for entry in tmp_path.iterdir()] == ['rows.csv']


def test_skewed_graphs(module):
    graphs = module('_graphs')
    rowptr, col = graphs.skewed_csr(500, 20_000, seed=3)
    edges = graphs.edge_list(rowptr, col)
    in_degree, out_degree = (edges[i].bincount(minlength=500) for i in (1, 0))
    assert edges.size(1) == int(rowptr[-1]) == 20_000
    assert col.dtype == torch.int32
    assert in_degree[0] == 0
    assert torch.equal(in_degree, rowptr.diff())
    for degree in (in_degree, out_degree):  # the mean is 40
        assert degree.max() > 200
        assert degree.median() < 30


def test_times_alternate(module):
    measure, seen = module('_measure'), []
    calls = {name: lambda n=name: seen.append(n) for name in 'ab'}
    medians = measure.alternate(calls, 3)
    assert seen == list('ababab')
    assert all(cpu >= 0 and wall > 0 for cpu, wall in medians.values())


def test_peak_memory_counts_what_a_call_takes(module):
    peak = module('_measure').peak_rss_mib
    assert 60 < peak(lambda: torch.ones(2**24)) < 80  # 64 MiB
    assert peak(lambda: None) < 10


def test_gpu_check_without_a_gpu(tmp_path):
    if torch.cuda.is_available():
        pytest.skip('there is a GPU: the check would run')
    out = tmp_path / 'rows.jsonl'
    command = [sys.executable, str(SPEED / 'gpu_check.py'), '--out', str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'no CUDA device' in done.stdout
    (facts,) = read_lines(out)
    assert facts['stage'] == 'facts'
    assert facts['torch'] == torch.__version__


@pytest.mark.parametrize(
    'stage', ['status', 'speed', 'memory', 'softmax', 'ceilings']
)
def test_gpu_stages_in_rehearsal(module, stage):
    job = {'stages': [stage], 'device': 'cpu', 'small': True}
    *rows, last = module('_gpu_job').work(job)
    assert rows
    assert set(last) == {'stage', 'seconds'}
    for row in rows:
        assert 'error' not in row, row['error']
        assert row.get('ok', True)
        assert all(row[key] > 0 for key in row if key.endswith('_ms'))


def test_gpu_values_find_a_wrong_backend(module, monkeypatch):
    values = module('_gpu_values')
    monkeypatch.setattr(values, 'CASES', values.CASES[1:3])
    rows = list(values.check_values('torch', 'cpu'))
    assert len(rows) == 4
    assert all(row['ok'] and row['same_bits'] for row in rows)

    def wrong(q, k, graph, beta, bias):
        lse, u, v = energy_attention(q, k, graph, beta, bias)
        return lse, u, v * (1 if q.dtype == torch.double else 1.001)

    monkeypatch.setattr(values, 'energy_attention', wrong)
    fp32, *_ = values.check_values('torch', 'cpu')
    assert not fp32['ok']
    assert fp32['errors']['v'] > 5e-4
    assert fp32['errors']['u'] < 5e-6


def test_a_stage_that_fails_leaves_the_others(module, monkeypatch):
    job_module = module('_gpu_job')
    monkeypatch.setitem(job_module.STAGES, 'speed', lambda job: 1 / 0)
    job = {'stages': ['speed', 'status'], 'device': 'cpu', 'small': True}
    first, *_, last = job_module.work(job)
    assert 'ZeroDivisionError' in first['error']
    assert last['stage'] == 'status'


INTERPRETED = """
import torch
from _graphs import edge_list, skewed_csr
from torch_energy_graph.ops import GraphCache, energy_attention
from triton_attention import energy_attention as by_triton

graph = GraphCache.from_edge_index(edge_list(*skewed_csr(40, 400)), 40)
for heads, channels in ((4, 8), (1, 16)):
    q, k = torch.randn(2, 40, heads, channels)
    out = by_triton(q, k, graph, 0.3)
    expected = energy_attention(q.double(), k.double(), graph, 0.3)
    for a, b in zip(out, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-6)
print('ok')
"""


@pytest.mark.skipif(
    util.find_spec('triton') is None, reason='Triton is not installed'
)
@pytest.mark.skipif(
    torch.cuda.is_available(), reason='the interpreter is for CPUs'
)
def test_triton_attention():
    # the variable counts when Triton is imported, hence a process
    env = {**os.environ, 'TRITON_INTERPRET': '1', 'TEG_BACKEND': 'reference'}
    done = subprocess.run(
        [sys.executable, '-c', INTERPRETED],
        cwd=SPEED,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == 'ok', done.stderr
