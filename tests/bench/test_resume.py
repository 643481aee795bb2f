import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TINY = Path(__file__).with_name('tiny.py')
ROOT = TINY.parents[2]
CONFIG = """
name: slow
groups:
  - {datasets: [tiny], protocol: et-40pct, splits: [0, 1, 2, 3, 4]}
models:
  centroid: {sleep: 0.5}
"""


def start(*args):
    """`teg`, in a process of its own, with the tiny models."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.getenv('PYTHONPATH')]))
    return subprocess.Popen(
        [sys.executable, str(TINY), *map(str, args)],
        env={**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background jobs, and all they start, ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finished(out):
    return {p.name: p for p in (out / 'units').glob('*.json')}


@pytest.fixture
def running(write_config, tmp_path):
    """A run that has two finished units and goes on."""
    out = tmp_path / 'run'
    process = start('bench', 'run', write_config(CONFIG), '--out', out)
    deadline = time.monotonic() + 120
    while len(finished(out)) < 2:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield process, out
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_nothing_is_lost_or_repeated_after_kill_9(running):
    process, out = running
    process.kill()
    process.communicate()
    before = {
        name: (p.stat().st_mtime_ns, p.read_bytes())
        for name, p in finished(out).items()
    }
    assert 2 <= len(before) < 5
    left_over = out / 'units' / 'x.json.1.tmp'
    left_over.write_text('{"sta')
    resumed = start('bench', 'resume', out)
    _, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    assert f'{5 - len(before)} done, {len(before)} finished before' in errors
    after = finished(out)
    assert len(after) == 5
    for name, state in before.items():
        assert (after[name].stat().st_mtime_ns, after[name].read_bytes()) == (
            state
        )
    assert not left_over.exists()
    assert '5 of 5' in (out / 'report.md').read_text()


def test_ctrl_c_says_how_to_go_on(running):
    process, out = running
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f'teg bench resume {out}' in errors
    assert 'Traceback' not in errors


def test_a_second_runner_is_turned_away(running):
    process, out = running
    second = start('bench', 'resume', out)
    _, errors = second.communicate(timeout=120)
    if process.poll() is None:  # else the first was done before
        assert second.returncode == 1
        assert f'in use by another runner (process {process.pid})' in errors
