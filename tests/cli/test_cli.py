import json
import subprocess
import sys

import pytest

import torch_energy_graph
from tests.cli.calls import run
from torch_energy_graph.cli import main

CONFIG = """
name: demo
groups:
  - {datasets: [digits_outlier], protocol: et-40pct, splits: [0]}
models:
  logreg:
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / 'demo.yaml'
    path.write_text(CONFIG)
    return path


def test_version(capsys):
    version = torch_energy_graph.__version__
    assert run(capsys, '--version') == (0, f'teg {version}\n', '')


def test_help_lists_the_commands(capsys):
    code, out, _ = run(capsys, '--help')
    assert code == 0
    for word in ('doctor', 'data', 'bench', '--debug'):
        assert word in out


@pytest.mark.parametrize(
    'args',
    [
        ['--help'],
        ['--version'],
        ['bench', 'run', '--help'],
        ['bench', 'run'],
        ['data', 'list', '--no-such-option'],
    ],
)
def test_light_commands_do_not_import_torch(args):
    heavy = ('torch', 'torch_geometric', 'sklearn', 'ogb', 'pandas')
    code = (
        'import sys\n'
        'from torch_energy_graph.cli import main\n'
        f'main({args!r})\n'
        f'sys.exit(bool(set({heavy!r}) & set(sys.modules)))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True)
    assert done.returncode == 0


@pytest.mark.parametrize(
    'args',
    [
        ['bench', 'run'],
        ['bench', 'walk'],
        ['data', 'list', '--no-such-option'],
        ['bench', 'run', 'absent.yaml'],
        ['bench', 'resume', 'absent'],
        ['bench', 'report', 'absent'],
    ],
)
def test_wrong_usage_is_2(capsys, args):
    code, _, err = run(capsys, *args)
    assert code == 2
    assert err.strip()


def test_an_error_is_one_line_and_debug_shows_more(capsys, tmp_path):
    config = tmp_path / 'c.yaml'
    config.write_text(CONFIG.replace('et-40pct', 'et-40'))
    code, out, err = run(capsys, 'bench', 'run', config)
    assert code == 2
    assert out == ''
    assert err == (
        "teg: error: unknown protocol 'et-40'; did you mean 'et-40pct'?\n"
    )
    with pytest.raises(ValueError, match='unknown protocol'):
        main(['bench', 'run', str(config), '--debug'])


def test_doctor(capsys):
    code, out, _ = run(capsys, 'doctor', '--json')
    found = json.loads(out)
    assert code == 0
    assert found['ok']
    assert found['torch_energy_graph'] == torch_energy_graph.__version__
    assert found['required']['torch']['ok']
    assert sum(b['active'] for b in found['backends'].values()) == 1
    assert found['data_roots']
    assert found['cpu']['torch_threads'] >= 1
    code, out, _ = run(capsys, 'doctor')
    assert code == 0
    for word in ('torch_scatter', 'backends', 'active: ', 'data roots'):
        assert word in out


def test_doctor_survives_broken_packages(capsys, tmp_path, monkeypatch):
    (tmp_path / 'pyg_lib.py').write_text('raise OSError("wrong torch")')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, 'pyg_lib', raising=False)
    monkeypatch.setitem(sys.modules, 'scipy', None)
    code, out, _ = run(capsys, 'doctor', '--json')
    found = json.loads(out)
    assert code == 1
    assert not found['ok']
    assert found['optional']['pyg_lib']['reason'] == 'broken: wrong torch'
    assert not found['required']['scipy']['ok']


def test_data_list_and_info(capsys):
    code, out, _ = run(capsys, 'data', 'list', '--json')
    assert code == 0
    assert 'digits_outlier' in {card['name'] for card in json.loads(out)}
    code, out, _ = run(capsys, 'data', 'info', 'digits_outlier', '--json')
    assert code == 0
    assert json.loads(out)
    for args in (['list'], ['info', 'digits_outlier']):
        code, out, _ = run(capsys, 'data', *args)
        assert code == 0
        assert 'digits_outlier' in out


def test_data_info_of_an_unknown_name(capsys):
    code, _, err = run(capsys, 'data', 'info', 'digits_inlier')
    assert code == 1
    assert 'digits_inlier' in err
    assert err.count('\n') == 1


def test_plan_then_run_then_report(capsys, config, tmp_path):
    out = tmp_path / 'run'
    args = ['bench', 'run', config, '--out', out, '--set', 'models.logreg.C=2']
    code, text, _ = run(capsys, *args, '--plan', '--json')
    planned = json.loads(text)
    assert code == 0
    assert [unit['finished'] for unit in planned['units']] == [False]
    assert not out.exists()

    code, text, err = run(capsys, *args, '--json')
    assert code == 0
    summary = json.loads(text)
    assert (summary['total'], summary['done'], summary['failed']) == (1, 1, 0)
    key = planned['units'][0]['key']
    row = json.loads((out / 'units' / f'{key}.json').read_text())
    assert row['unit']['params']['C'] == 2.0
    assert 'logreg: test AUPRC' in err

    code, text, _ = run(capsys, *args, '--plan')
    assert code == 0
    assert '1 units, 1 finished' in text

    (out / 'report.md').unlink()
    code, text, _ = run(capsys, 'bench', 'report', out)
    assert code == 0
    assert '| logreg |' in text
    assert (out / 'report.md').read_text().strip() == text.strip()
    assert '--set models.logreg.C=2`' in text

    code, text, _ = run(capsys, 'bench', 'resume', out, '--json')
    assert code == 0
    assert json.loads(text)['skipped'] == 1


def test_a_failed_unit_is_1(capsys, config, tmp_path):
    out = tmp_path / 'run'
    args = ['bench', 'run', config, '--out', out]
    args += ['--set', 'groups.0.protocol=official']
    code, text, err = run(capsys, *args)
    assert code == 1
    assert '- failed: logreg, split 0' in text
    assert '1 failed' in err


def test_an_interrupt_is_130(capsys, config, tmp_path, monkeypatch):
    from torch_energy_graph import bench

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, 'run', interrupt)
    out = tmp_path / 'run'
    code, _, err = run(capsys, 'bench', 'run', config, '--out', out)
    assert code == 130
    assert f'teg bench resume {out}' in err


def test_only_runs_a_part_and_keeps_the_plan(capsys, config, tmp_path):
    out = tmp_path / 'run'
    args = ['bench', 'run', config, '--out', out]
    args += ['--set', 'groups.0.splits=[0, 1]']
    code, _, err = run(capsys, *args, '--only', 'model=logreg,split=1')
    assert code == 0
    assert '1 units: 1 done' in err
    text = (out / 'report.md').read_text()
    assert '- not run: logreg, split 0, seed 0' in text
    assert '--only dataset=digits_outlier,' in text
    code, _, err = run(capsys, 'bench', 'resume', out, '--only', 'split=2')
    assert code == 2
    assert "no unit has split '2'" in err
    code, _, err = run(capsys, 'bench', 'resume', out)
    assert code == 0
    assert '2 units: 1 done, 1 finished before' in err
