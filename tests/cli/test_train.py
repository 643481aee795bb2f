import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.calls import run

CONFIG = """
task: classification
name: digits
dataset: digits_knn
protocol: per-class-10
model: gcn_cls
params: {epochs: 5, hidden_channels: 8, features: raw, patience: null}
save_every: 1
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / 'digits.yaml'
    path.write_text(CONFIG)
    return path


def test_train_then_again(capsys, config, tmp_path):
    out = tmp_path / 'run'
    code, text, _ = run(capsys, 'train', config, '--out', out)
    assert code == 0
    assert text.startswith('gcn_cls on digits_knn, per-class-10 split 0: ')
    names = {path.name for path in out.iterdir()} - {'.lock'}
    assert {'result.json', 'model.safetensors', 'history.csv'} < names
    code, text, err = run(capsys, 'train', config, '--out', out, '--json')
    assert code == 0
    assert 'Going on after epoch 5' in err
    stored = json.loads((out / 'result.json').read_text())
    assert json.loads(text) == stored
    assert stored['params']['epochs'] == 5


def test_other_settings_need_another_folder(capsys, config, tmp_path):
    args = ['train', config, '--out', tmp_path / 'run']
    assert run(capsys, *args)[0] == 0
    code, _, err = run(capsys, *args, '--set', 'seed=1')
    assert code == 2
    assert '(seed); choose another folder with --out' in err


@pytest.mark.parametrize('override', ['model=gcn', 'params.epochs=many'])
def test_wrong_usage_is_2(capsys, config, override):
    code, _, err = run(capsys, 'train', config, '--set', override)
    assert code == 2
    assert err.count('\n') == 1


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_the_state(capsys, config, tmp_path, number):
    out = tmp_path / 'run'
    command = [sys.executable, '-m', 'torch_energy_graph.cli', 'train']
    command += [config, '--out', out, '--set', 'params.epochs=100000']
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    deadline = time.monotonic() + 120
    while not (out / 'state.json').exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f'teg train {config} --out {out} --set params.epochs' in err
    state = json.loads((out / 'state.json').read_text())
    last = state['values']['epoch']
    assert last >= 1
    assert not (out / 'result.json').exists()
    history = (out / 'history.csv').read_text().splitlines()
    assert history[-1].startswith(f'{last},')
