import errno
import fcntl
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.cli.fraud.conftest import flat
from torch_energy_graph.data.from_csv import from_csv
from torch_energy_graph.detect import EnergyFraudDetector
from torch_energy_graph.detect.score_file import ScoreFile

pd = pytest.importorskip('pandas')


@pytest.fixture(scope='module')
def detector(run):
    return EnergyFraudDetector.load(run / 'model')


@pytest.fixture(scope='module')
def expected(detector, folder):
    layout = detector.preprocessing_.layout_.for_scoring()
    table = from_csv(folder / 'nodes.csv', folder / 'edges.csv', layout)
    return detector.score_table(table)


@pytest.fixture
def args(run, folder):
    files = ['--nodes', folder / 'nodes.csv', '--edges', folder / 'edges.csv']
    return ['predict', '--model', run, *files, '--batch-size', 50]


def equal(left, right):
    pd.testing.assert_frame_equal(left, right, check_exact=True)


def test_scores_are_those_of_the_library(args, expected, teg, tmp_path):
    out = tmp_path / 'new' / 'scores.csv'
    code, text, err = teg(*args, '--out', out)
    assert code == 0
    assert text == f'240 nodes were scored: {out}\n'
    assert 'left aside columns' in err  # the labels
    equal(pd.read_csv(out), expected)
    assert [path.name for path in out.parent.iterdir()] == ['scores.csv']
    out = tmp_path / 'scores.parquet'
    assert teg(*args, '--out', out)[0] == 0
    equal(pd.read_parquet(out), expected)


def killed(args):
    """Run `teg` in a process that dies; return its signal."""
    child = os.fork()
    if child == 0:
        from torch_energy_graph.cli import main

        main([str(arg) for arg in args])
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize('after', ['append', 'write'])
@pytest.mark.parametrize('ending', ['csv', 'parquet'])
def test_a_killed_run_goes_on(
    args, expected, teg, tmp_path, monkeypatch, after, ending
):
    out = tmp_path / f'scores.{ending}'
    append = ScoreFile.append

    def die(self, rows):
        if self.num_rows == 100:  # in the third batch
            if after == 'write':  # half of it is in the file
                self._file.write(b'acc-100,0.1')
                self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(ScoreFile, 'append', die)
        assert killed([*args, '--out', out]) == -signal.SIGKILL
    assert not out.exists()
    code, text, _ = teg(*args, '--out', out, '--json')
    assert code == 0
    assert json.loads(text)['num_resumed'] == 100
    read = pd.read_csv if ending == 'csv' else pd.read_parquet
    equal(read(out), expected)


def test_a_full_disk_is_one_line(args, expected, teg, tmp_path, monkeypatch):
    out, fsync, calls = tmp_path / 'scores.csv', os.fsync, []

    def full(file):
        calls.append(file)
        if len(calls) > 4:  # a batch takes three: rows, state, its folder
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(file)

    with monkeypatch.context() as patch:
        patch.setattr('os.fsync', full)
        code, _, err = teg(*args, '--out', out)
    assert code == 1
    assert [line for line in err.splitlines() if 'error' in line] == [
        f"teg: error: cannot write '{out}': No space left on device; the "
        f'same command goes on after 50 rows'
    ]
    code, text, _ = teg(*args, '--out', out, '--json')
    assert json.loads(text)['num_resumed'] == 50
    equal(pd.read_csv(out), expected)


def test_folders_that_cannot_be_written(args, teg, tmp_path):
    file = tmp_path / 'file'
    file.touch()
    code, _, err = teg(*args, '--out', file / 'scores.csv')
    assert code == 1
    assert 'choose another file' in err.splitlines()[-1]
    locked = tmp_path / 'locked'
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):  # root may write nearly everywhere
        locked = Path('/sys')
        if not locked.is_dir():
            pytest.skip('no folder that cannot be written')
    code, _, err = teg(*args, '--out', locked / 'scores.csv')
    assert code == 1
    assert err.count('cannot write') == err.count('\n') == 1
    assert '; choose another file' in err


def test_other_tasks_and_other_processes(
    args, expected, teg, tmp_path, monkeypatch
):
    out = tmp_path / 'scores.csv'
    with ScoreFile(out, 'another') as file:
        file.append(expected.head(10))
    (tmp_path / 'scores.csv.partial.json.77.tmp').touch()
    code, text, _ = teg(*args, '--out', out, '--json')
    assert json.loads(text)['num_resumed'] == 0
    equal(pd.read_csv(out), expected)
    assert [*tmp_path.iterdir()] == [out]
    with open(tmp_path / 'scores.csv.partial', 'ab') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, _, err = teg(*args, '--out', out)
    assert code == 1
    assert 'is being written by another process' in err
    # a file that got its name while another process waited for it
    with monkeypatch.context() as patch:
        patch.setattr(
            'fcntl.flock',
            lambda file, how: os.replace(
                tmp_path / 'scores.csv.partial', tmp_path / 'done'
            ),
        )
        code, _, err = teg(*args, '--out', out)
    assert code == 1
    assert 'is being written by another process' in err


def test_new_nodes_of_a_graph_that_grows(run, folder, detector, teg, tmp_path):
    new, out = tmp_path / 'new.csv', tmp_path / 'scores.csv'
    new.write_text('id,amount,age,kind\nnew-1,3.5,1,shop\nnew-2,-2,,user\n')
    pays, device = tmp_path / 'pays.csv', tmp_path / 'device.csv'
    pays.write_text('source,target,sum\nnew-1,acc-3,2\n')
    device.write_text('source,target,sum\nnew-2,new-1,1\nnew-2,acc-5,1\n')
    edges = ['--edges', f'pays={pays}', '--edges', f'device={device}']
    args = ['predict', '--model', run, '--nodes', new, *edges]
    assert teg(*args, '--base', folder, '--out', out)[0] == 0
    layout = detector.preprocessing_.layout_.for_scoring()
    base = from_csv(folder / 'nodes.csv', folder / 'edges.csv', layout)
    files = {'pays': pays, 'device': device}
    grown = from_csv(new, files, layout, base=base)
    expected = detector.score_table(grown).tail(2).reset_index(drop=True)
    found = pd.read_csv(out)
    assert found['id'].tolist() == ['new-1', 'new-2']
    for name in ('probability', 'std', 'energy'):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    # without the graph that grows, its nodes are unknown
    code, _, err = teg(*args, '--out', out)
    assert code == 1
    assert "row 2, column 'target': id 'acc-3' is in no row of" in err


@pytest.mark.parametrize(
    ('cells', 'message'),
    [
        ('new-1,three,1,shop', "row 2, column 'amount'"),
        ('new-1,inf,1,shop', "row 2, column 'amount'"),
        (',1,1,shop', "row 2, column 'id'"),
    ],
)
def test_errors_name_the_cell(run, folder, teg, tmp_path, cells, message):
    new, edges = tmp_path / 'new.csv', tmp_path / 'new_edges.csv'
    new.write_text(f'id,amount,age,kind\n{cells}\n')
    edges.write_text('source,target,type,sum\n')
    out = tmp_path / 'scores.csv'
    args = ['--nodes', new, '--edges', edges, '--base', folder, '--out', out]
    code, _, err = teg('predict', '--model', run, *args)
    assert code == 1
    assert f"'{new}', {message}" in err
    assert 'Traceback' not in err
    assert not out.exists()


def test_wrong_usage(args, teg, tmp_path):
    code, _, err = teg(*args, '--out', tmp_path / 'scores.xlsx')
    assert code == 1
    assert 'ends in .csv or .parquet' in err
    more = ['--edges', tmp_path / 'other.csv']
    code, _, err = teg(*args, *more, '--out', tmp_path / 'scores.csv')
    assert code == 2
    assert 'expected --edges FILE once' in flat(err)
    absent = ['--model', tmp_path, '--out', tmp_path / 'scores.csv']
    code, _, err = teg(*args, *absent)
    assert code == 1
    assert 'there is no detector in' in err
