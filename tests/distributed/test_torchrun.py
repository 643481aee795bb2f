import os
import re
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from torch_energy_graph.distributed import torchrun_group
from torch_energy_graph.nn.models.difformer import DIFFormer

EXAMPLE = Path(__file__).parents[2] / 'examples' / 'distributed_difformer.py'
ONE_PROCESS = {
    'RANK': '0',
    'WORLD_SIZE': '1',
    'LOCAL_RANK': '0',
    'MASTER_ADDR': '127.0.0.1',
    'MASTER_PORT': '0',
}


def one_process():
    """The example's last line, from the unsharded model."""
    spec = util.spec_from_file_location('teg_example', EXAMPLE)
    example = util.module_from_spec(spec)
    spec.loader.exec_module(example)
    data = example.make_graph()
    model = DIFFormer(16, 32, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train = data.train_mask
    for _ in range(30):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = F.cross_entropy(out[train], data.y[train])
        loss.backward()
        optimizer.step()
    right = (out.argmax(-1) == data.y)[~train].float().mean()
    return loss.item(), right.item()


@pytest.mark.parametrize(
    'processes', [2, pytest.param(3, marks=pytest.mark.full)]
)
def test_example(processes):
    launcher = [sys.executable, '-m', 'torch.distributed.run', '--standalone']
    done = subprocess.run(
        [*launcher, f'--nproc_per_node={processes}', str(EXAMPLE)],
        env={**os.environ, 'OMP_NUM_THREADS': '1'},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = re.findall(r'loss (\S+), test accuracy (\S+)', done.stdout)
    assert len(lines) == 1, done.stdout
    loss, accuracy = (float(value) for value in lines[0])
    expected = one_process()
    assert loss == pytest.approx(expected[0], rel=1e-3)
    assert accuracy == pytest.approx(expected[1], abs=0.01)
    assert accuracy > 0.8


def test_without_torchrun(monkeypatch):
    for name in ONE_PROCESS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('RANK', '0')
    with (
        pytest.raises(RuntimeError, match='got no WORLD_SIZE, LOCAL_RANK'),
        torchrun_group(),
    ):
        pass


@pytest.fixture
def launched(monkeypatch):
    for name, value in ONE_PROCESS.items():
        monkeypatch.setenv(name, value)


def test_the_group_is_closed(launched):
    with torchrun_group('gloo') as worker:
        assert worker == (0, 1, torch.device('cpu'))
        assert dist.get_backend() == 'gloo'
    assert not dist.is_initialized()
    with pytest.raises(ZeroDivisionError), torchrun_group('gloo'):
        raise ZeroDivisionError
    assert not dist.is_initialized()


def test_nccl_needs_gpus(launched, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 0)
    with (
        pytest.raises(ValueError, match='got 0 GPUs, local rank 0'),
        torchrun_group('nccl'),
    ):
        pass
