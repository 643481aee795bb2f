import subprocess
import sys

import pytest
import torch

from torch_energy_graph.ops import backends, native, use_backend
from torch_energy_graph.ops.backend import active_backend

BUILT = native.build_error is None


def test_one_backend_is_active_on_the_cpu():
    with use_backend('reference'):
        assert backends()['reference'].active
        assert not backends()['torch'].active
        assert active_backend('cpu') == active_backend('cuda') == 'reference'


@pytest.mark.skipif(not BUILT, reason='no native kernels')
def test_kernels_serve_their_own_device():
    with use_backend('cpu'):
        assert active_backend('cpu') == 'cpu'
        assert active_backend('cuda') == 'torch'
    assert 'C++ kernels' in backends()['cpu'].reason
    assert native.cpu_isa() in ('generic', 'v3', 'v4')


def test_an_unknown_backend_is_named():
    with pytest.raises(ValueError, match=r"'use_backend' expects one of"):
        use_backend('tpu').__enter__()


def test_without_a_build_the_reason_is_given(monkeypatch):
    monkeypatch.setattr(native, 'build_error', 'no such file')
    state = backends()['cpu']
    assert not state.available
    assert 'not built (no such file)' in state.reason
    with pytest.raises(ValueError, match='TEG_BUILD_EXT=1'):
        use_backend('cpu').__enter__()


def run(code, **env):
    return subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, env=env
    )


@pytest.mark.parametrize(
    ('env', 'expected'),
    [
        ({'TEG_BACKEND': 'torch'}, 'torch'),
        ({'TEG_BACKEND': 'reference'}, 'reference'),
        ({'TEG_BACKEND': ''}, 'cpu' if BUILT else 'torch'),
    ],
)
def test_the_environment_chooses(env, expected):
    code = (
        'from torch_energy_graph.ops.backend import active_backend;'
        "print(active_backend('cpu'))"
    )
    assert run(code, **env).stdout.strip() == expected


def test_a_wrong_environment_is_an_error():
    done = run('import torch_energy_graph.ops', TEG_BACKEND='numpy')
    assert "ValueError: 'TEG_BACKEND' expects one of" in done.stderr


@pytest.mark.skipif(not BUILT, reason='no native kernels')
def test_an_instruction_set_that_is_not_there():
    code = 'from torch_energy_graph.ops import native; print(native.cpu_isa())'
    assert run(code, TEG_CPU_ISA='generic').stdout.strip() == 'generic'
    done = run(code, TEG_CPU_ISA='v9')
    assert 'TEG_CPU_ISA=v9 is not built in' in done.stderr


@pytest.mark.skipif(not BUILT, reason='no native kernels')
def test_all_instruction_sets_agree(tmp_path):
    """Each runs in a process of its own; those this CPU lacks are skipped."""
    code = f"""
import sys
sys.path.insert(0, {str(__file__.rsplit('/', 1)[0])!r})
import torch
from test_kernels import outputs_and_gradients, problem
found = [outputs_and_gradients(problem(dtype=dtype, channels=y))
         for dtype in (torch.float32, torch.float64) for y in (7, 32)]
torch.save(found, {str(tmp_path)!r} + '/' + sys.argv[1] + '.pt')
"""
    found = {}
    for isa in ('generic', 'v3', 'v4'):
        done = subprocess.run(
            [sys.executable, '-c', code, isa],
            capture_output=True, text=True, env={'TEG_CPU_ISA': isa},
        )  # fmt: skip
        if 'not supported by this CPU' in done.stderr:
            continue
        assert done.returncode == 0, done.stderr
        found[isa] = torch.load(tmp_path / f'{isa}.pt', weights_only=True)
    for tensors in found.values():
        for a, b in zip(tensors, found['generic'], strict=True):
            for x, y in zip(a, b, strict=True):
                tol = 1e-12 if x.dtype == torch.float64 else 1e-5
                torch.testing.assert_close(x, y, rtol=tol, atol=tol)
