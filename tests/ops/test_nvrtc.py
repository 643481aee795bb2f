"""Compiling the CUDA kernels at run time, and choosing them; no GPU needed.

What the kernels compute, and how they are launched: tests/csrc.
"""

import ctypes
import logging
import multiprocessing
import subprocess
import sys
import threading

import pytest
import torch

from torch_energy_graph.ops import (
    GraphCache,
    backends,
    cuda,
    cuda_driver,
    edge_wise,
    native,
    nvrtc,
    use_backend,
)

SOFTMAX = 'scatter_softmax.cuh'
GPU = torch.device('cuda', 0)


class FakeCompiler:
    """Counts what it is asked for."""

    version = '13.0'

    def __init__(self):
        self.calls = 0

    def compile(self, source, headers, options):
        self.calls += 1
        return f'binary {self.calls}'.encode()


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty cache."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return tmp_path / 'torch_energy_graph' / 'nvrtc'


@pytest.fixture
def fake(monkeypatch, folder):
    compiler = FakeCompiler()
    monkeypatch.setattr(nvrtc, 'compiler', lambda: compiler)
    return compiler


@pytest.fixture
def real(folder):
    problem = nvrtc.problem()
    if problem is not None:
        pytest.skip(problem)
    return nvrtc.compiler()


@pytest.mark.parametrize('arch', ['sm_80', 'sm_120'])
def test_only_what_is_needed_is_compiled(real, arch):
    key = 'attention.cuh', 'TEG_ONLY_BF16', 'TEG_ONLY_LPH=4'
    binary = nvrtc.cubin(arch, *key)
    assert binary.startswith(b'\x7fELF')
    for name in (b'fwd_row', b'fwd_col', b'bwd_row', b'bwd_col'):
        assert b'ea_' + name + b'_bf16_l4' in binary
        assert b'ea_' + name + b'_merge_bf16' in binary
    assert b'_f32_l4' not in binary
    assert b'_bf16_l8' not in binary


def test_softmax_is_compiled_alone(real):
    binary = nvrtc.cubin('sm_90', SOFTMAX)
    for name in (b'forward_f32', b'backward_bf16'):
        assert b'scatter_softmax_' + name in binary
    assert b'ea_fwd_row' not in binary


def test_an_error_comes_with_the_log(real):
    options = ['--gpu-architecture=sm_90']
    with pytest.raises(RuntimeError, match='identifier "x" is undefined'):
        real.compile('__device__ int f() { return x; }', {}, options)


def test_the_second_call_reads_the_cache(fake, folder):
    first = nvrtc.cubin('sm_90', SOFTMAX)
    assert nvrtc.cubin('sm_90', SOFTMAX) == first
    assert fake.calls == 1
    (file,) = folder.iterdir()
    assert file.suffix == '.cubin'
    assert file.read_bytes().startswith(first)


@pytest.mark.parametrize(
    'damage', [lambda b: b[:-1], lambda b: b'B' + b[1:], lambda b: b'']
)
def test_a_damaged_file_is_compiled_again(fake, folder, damage):
    nvrtc.cubin('sm_90', SOFTMAX)
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert nvrtc.cubin('sm_90', SOFTMAX) == b'binary 2'
    assert nvrtc.cubin('sm_90', SOFTMAX) == b'binary 2'
    assert fake.calls == 2


def test_a_folder_that_cannot_be_written(fake, folder, monkeypatch, tmp_path):
    # permissions do not stop root, a file in the way does
    (tmp_path / 'file').write_text('')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
    assert nvrtc.cubin('sm_90', SOFTMAX) == b'binary 1'
    assert nvrtc.cubin('sm_90', SOFTMAX) == b'binary 2'


def test_without_the_variable_the_cache_is_in_the_home(monkeypatch, tmp_path):
    monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
    monkeypatch.setenv('HOME', str(tmp_path))
    assert nvrtc._folder() == tmp_path / '.cache/torch_energy_graph/nvrtc'


def test_what_a_binary_depends_on(fake, monkeypatch):
    sources = dict(nvrtc._sources())
    assert '#include "common.cuh"' in sources[SOFTMAX]
    nvrtc.cubin('sm_90', SOFTMAX)
    nvrtc.cubin('sm_80', SOFTMAX)
    nvrtc.cubin('sm_90', 'attention.cuh')
    nvrtc.cubin('sm_90', SOFTMAX, 'TEG_ONLY_F32')
    fake.version = '13.1'
    nvrtc.cubin('sm_90', SOFTMAX)
    sources['common.cuh'] += '\n'
    monkeypatch.setattr(nvrtc, '_sources', lambda: sources)
    nvrtc.cubin('sm_90', SOFTMAX)
    assert fake.calls == 6


def test_processes_share_the_cache(fake, folder, monkeypatch):
    monkeypatch.setattr(fake, 'compile', lambda *args: b'x' * 10**6)
    context = multiprocessing.get_context('fork')
    start = context.Barrier(2)

    def run():
        start.wait()
        for arch in range(30):
            assert nvrtc.cubin(f'sm_{arch}', SOFTMAX) == b'x' * 10**6

    both = [context.Process(target=run) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    files = list(folder.iterdir())
    assert len(files) == 30
    assert all(nvrtc._load(file) == b'x' * 10**6 for file in files)


class NoDriver:
    """Takes every module."""

    def cuCtxPushCurrent_v2(self, context):
        return 0

    cuInit = cuCtxPopCurrent_v2 = cuCtxPushCurrent_v2

    def cuDeviceGet(self, handle, device):
        return 0

    cuDevicePrimaryCtxRetain = cuModuleLoadData = cuDeviceGet


@pytest.fixture
def gpu(monkeypatch, fake):
    """A GPU, as far as choosing kernels goes, with NVRTC's only."""
    driver = cuda_driver.Driver(NoDriver())
    monkeypatch.setattr(cuda_driver, '_modules', {})
    monkeypatch.setattr(cuda_driver, 'driver', lambda: driver)
    monkeypatch.setattr(
        torch.cuda, 'get_device_capability', lambda device: (9, 0)
    )
    monkeypatch.setattr(cuda, '_kind', lambda device: 'nvrtc')
    cuda._ready.cache_clear()
    yield fake
    cuda._ready.cache_clear()


def test_threads_compile_once(gpu):
    start = threading.Barrier(4)

    def run():
        start.wait()
        cuda_driver.module(0, SOFTMAX)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gpu.calls == 1


def test_kernels_are_compiled_per_device(gpu):
    one, other = (cuda_driver.module(device, SOFTMAX) for device in (0, 1))
    assert one is not other
    assert cuda_driver.module(0, SOFTMAX) is one
    assert gpu.calls == 1  # of the same architecture


def test_pytorch_takes_over_what_does_not_compile(gpu, monkeypatch, caplog):
    def fail(*args):
        gpu.calls += 1
        raise RuntimeError('nvrtcCompileProgram failed: of line 7')

    monkeypatch.setattr(gpu, 'compile', fail)
    with caplog.at_level(logging.WARNING, 'torch_energy_graph'):
        for _ in range(3):
            assert not cuda._ready(GPU, SOFTMAX)
    assert len(caplog.records) == 1
    assert 'of line 7' in caplog.text
    assert gpu.calls == 1

    monkeypatch.setattr(cuda, '_SETTING', 'nvrtc')
    cuda._ready.cache_clear()
    for _ in range(2):
        with pytest.raises(RuntimeError, match='of line 7'):
            cuda._ready(GPU, SOFTMAX)


@pytest.mark.parametrize(
    ('dtype', 'shape', 'expected'),
    [
        (torch.float32, (3, 1, 1), True),
        (torch.float32, (3, 4, 128), True),
        (torch.float32, (3, 4, 129), False),
        (torch.float16, (3, 4, 129), False),
        (torch.bfloat16, (3, 4, 256), True),
        (torch.bfloat16, (3, 4, 257), False),
        (torch.float64, (3, 4, 8), False),
        (torch.float32, (3, 0, 8), False),
        (torch.float32, (3, 1, 0), False),
        (torch.float32, (0, 65536, 1), False),
    ],
)
def test_what_is_supported(gpu, dtype, shape, expected):
    assert cuda.supports(torch.empty(shape, dtype=dtype)) == expected


def choose(monkeypatch, setting, aot, jit):
    monkeypatch.setattr(cuda, '_SETTING', setting)
    monkeypatch.setattr(cuda, '_aot_problem', lambda device: aot)
    monkeypatch.setattr(nvrtc, 'problem', lambda: jit)
    monkeypatch.setattr(cuda_driver, 'problem', lambda: None)
    return cuda._choice.__wrapped__(0)


@pytest.mark.parametrize(
    ('setting', 'aot', 'jit', 'kind', 'texts'),
    [
        ('auto', None, None, 'aot', ['built with the package']),
        ('auto', 'old driver', None, 'nvrtc', ['NVRTC 13.0', 'old driver']),
        ('auto', 'old driver', 'gone', None, ['old driver', 'gone']),
        ('aot', 'old driver', None, None, ['old driver', 'KERNELS=aot']),
        ('nvrtc', None, None, 'nvrtc', ['NVRTC 13.0', 'KERNELS=nvrtc']),
        ('nvrtc', None, 'gone', None, ['KERNELS=nvrtc', 'gone']),
    ],
)
def test_the_choice_and_its_reason(
    monkeypatch, fake, setting, aot, jit, kind, texts
):
    found, reason = choose(monkeypatch, setting, aot, jit)
    assert found == kind
    assert all(text in reason for text in texts)


def test_no_driver_no_nvrtc_kernels(monkeypatch):
    def fail(name):
        raise OSError(f'{name}: no such file')

    monkeypatch.setattr(ctypes, 'CDLL', fail)
    cuda_driver.driver.cache_clear()
    assert cuda_driver.problem() == 'libcuda.so.1: no such file'


@pytest.mark.skipif(torch.cuda.is_available(), reason='there is a GPU')
def test_without_a_gpu_the_backend_says_why():
    state = backends()['cuda']
    assert not state.available
    assert not state.active
    assert state.reason.startswith('not usable: ')
    with pytest.raises(ValueError, match="backend 'cuda' is not usable: "):
        use_backend('cuda').__enter__()


@pytest.mark.skipif(native.build_error is not None, reason='no native kernels')
def test_the_built_operators_get_what_they_expect(monkeypatch):
    """On CPU tensors, whose kernels have the same schemas."""
    monkeypatch.setattr(cuda, '_kind', lambda device: 'aot')
    edges = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2]])
    graph = GraphCache.from_edge_index(edges, 4)
    gen = torch.Generator().manual_seed(0)
    q, k, gu, gv = torch.randn(4, 4, 2, 5, generator=gen).unbind()
    bias, grad_lse = torch.randn(2, 4, 2, generator=gen).unbind()
    grad_lse[3] = 0.0  # no in-edge
    true = edge_wise.forward(q, k, bias, graph)
    found = cuda.forward(q, k, bias, graph)
    inputs = (grad_lse, gu, gv), q, k, bias, *true[:2], graph
    true += edge_wise.backward(*inputs)
    found += cuda.backward(*inputs)
    for a, b in zip(found, true, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)

    src, grad = torch.randn(2, 6, 3, generator=gen).bfloat16().unbind()
    ptr = torch.tensor([0, 2, 6])
    p = cuda.softmax_forward(src.half(), ptr, None)
    assert p.dtype == torch.half
    torch.testing.assert_close(
        p[2:].float(), src[2:].float().softmax(0), rtol=1e-2, atol=1e-3
    )
    out = cuda.softmax_backward(grad.half(), p, ptr, None)
    p, grad = p[:2].float(), grad[:2].float()
    expected = p * (grad - (p * grad).sum(0))
    torch.testing.assert_close(out[:2].float(), expected, rtol=1e-2, atol=1e-3)


def test_a_wrong_setting_is_an_error(monkeypatch):
    monkeypatch.setenv('TEG_CUDA_KERNELS', 'jit')
    with pytest.raises(ValueError, match='expects auto, aot or nvrtc'):
        cuda._read_setting()
    monkeypatch.setenv('TEG_CUDA_KERNELS', '')
    assert cuda._read_setting() == 'auto'


def test_importing_looks_for_nothing():
    code = """
import torch
torch.cuda.is_available = None  # a call would fail
from torch_energy_graph.ops import cuda, cuda_driver, nvrtc
for lazy in (cuda.status, nvrtc.compiler, cuda_driver.driver):
    assert lazy.cache_info().currsize == 0
"""
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
