import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.calls import run

pytest.importorskip('matplotlib')

CONFIG = """
task: images
name: tiny
dataset: digits
model: {patch_size: 2, hidden_channels: 8, heads: 2, num_steps: 2}
training: {epochs: 1, batch_size: 360}
save_seconds: 1e-9
"""
PICTURES = {
    *('completion.png', 'contributions.png', 'descent.png'),
    *('memories.png', 'positions.png'),
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / 'tiny.yaml'
    path.write_text(CONFIG)
    return path


def test_train_then_again_then_plot(capsys, config, tmp_path):
    folder = tmp_path / 'run'
    code, text, _ = run(capsys, 'train', 'image', config, '--out', folder)
    assert code == 0
    assert text.startswith('digits: mean squared error 0.')
    args = ('train', 'image', config, '--out', folder, '--json')
    code, text, err = run(capsys, *args)
    assert code == 0
    assert 'Going on after batch 4' in err
    assert json.loads(text)['last_epoch'] == 1
    code, text, _ = run(capsys, 'plot', 'image', folder, '--count', 2)
    assert code == 0
    files = {path.name: path for path in (folder / 'plots').iterdir()}
    assert set(files) == PICTURES
    assert text.split() == [
        str(files[n])
        for n in (
            'completion.png',
            'descent.png',
            'contributions.png',
            'memories.png',
            'positions.png',
        )
    ]
    for path in files.values():
        assert path.read_bytes().startswith(b'\x89PNG')
    args = ('plot', 'image', folder, '--out', tmp_path / 'p', '--json')
    code, text, _ = run(capsys, *args)
    assert code == 0
    assert {name.rpartition('/')[2] for name in json.loads(text)} == PICTURES


@pytest.mark.parametrize(
    'args',
    [
        ('train', 'image', 'absent.yaml'),
        ('train', 'absent.yaml'),  # a node classifier, as before
        ('plot', 'image', 'absent'),
    ],
)
def test_wrong_usage_is_2(capsys, args):
    code, _, err = run(capsys, *args)
    assert code == 2
    assert err.count('\n') == 1


def test_help_names_both_trainings(capsys):
    code, text, _ = run(capsys, 'train', '--help')
    assert code == 0
    assert 'image' in text
    code, text, _ = run(capsys, 'plot', '--help')
    assert code == 0
    assert 'image' in text


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_the_state(config, tmp_path, number):
    out = tmp_path / 'run'
    command = [sys.executable, '-m', 'torch_energy_graph.cli', 'train']
    command += ['image', config, '--out', out]
    command += ['--set', 'training.epochs=100000']
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    deadline = time.monotonic() + 240
    while not (out / 'state.json').exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert f'teg train image {config} --out {out} --set training.' in err
    state = json.loads((out / 'state.json').read_text())
    assert state['values']['step'] >= 1
    assert not (out / 'result.json').exists()
    assert not list(out.glob('*.tmp'))
