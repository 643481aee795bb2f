"""The `cuda` backend from PyTorch's side down to the launches.

Everything is real but the driver: it hands the launches to the emulator.
"""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from torch_energy_graph.ops import (
    GraphCache,
    cuda,
    cuda_driver,
    cuda_launch,
    energy_attention,
    library,
    nvrtc,
    scatter_softmax,
    softmax,
    use_backend,
)
from torch_energy_graph.ops.cuda_launch import AttentionArgs, SoftmaxArgs

STREAM = 2**40 + 77
TOLERANCE = {
    torch.float32: 2e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 1e-2,
}


class EmulatedDriver:
    """What the launcher uses of libcuda."""

    def __init__(self, emulator):
        self.emulator = emulator
        self.names = []
        self.contexts = []
        self.modules = []

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, handle, device):
        return 0

    def cuDevicePrimaryCtxRetain(self, context, handle):
        context._obj.value = 5
        return 0

    def cuCtxPushCurrent_v2(self, context):
        self.contexts.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context):
        self.contexts.pop()
        return 0

    def cuModuleLoadData(self, handle, binary):
        assert self.contexts == [5]
        self.modules.append(binary.decode())
        handle._obj.value = len(self.modules)
        return 0

    def cuModuleGetFunction(self, function, handle, name):
        name = name.decode()
        if not self._holds(self.modules[handle.value - 1].split(), name):
            return 500
        self.names.append(name)
        function._obj.value = len(self.names)
        return 0

    @staticmethod
    def _holds(built, name):
        """Whether a module has a kernel: what its macros leave out."""
        arch, header, *macros = built
        assert arch == 'sm_90'
        if header == 'scatter_softmax.cuh':
            return name.startswith('scatter_softmax_')
        kind, lanes = (macro.split('_')[-1].lower() for macro in macros)
        lanes = lanes.replace('lph=', '_l')
        return name.endswith((f'_{kind}{lanes}', f'_merge_{kind}'))

    def cuGetErrorString(self, status, text):
        text._obj.value = b'named symbol not found'
        return 0

    def cuLaunchKernel(self, function, x, y, z, *rest):
        threads, by, bz, shared, stream, pointers, extra = rest
        assert (z, by, bz, shared, extra) == (1, 1, 1, 0, None)
        assert stream.value == STREAM
        assert self.contexts == [5]
        name = self.names[function.value - 1]
        is_softmax = name.startswith('scatter_softmax')
        struct = SoftmaxArgs if is_softmax else AttentionArgs
        args = struct.from_address(pointers[0])
        self.emulator.launch(name, (x, y), threads, args)
        return 0


@pytest.fixture
def driver(emulator, monkeypatch):
    """CPU tensors go to the `cuda` backend, its launches to the emulator."""
    library_ = EmulatedDriver(emulator)
    fake = cuda_driver.Driver(library_)
    monkeypatch.setattr(cuda_driver, 'driver', lambda: fake)
    monkeypatch.setattr(cuda_driver, '_modules', {})
    monkeypatch.setattr(cuda, '_kind', lambda device: 'nvrtc')
    monkeypatch.setattr(nvrtc, 'cubin', lambda *key: ' '.join(key).encode())
    monkeypatch.setattr(library, '_evaluator', lambda q, graph: cuda)
    monkeypatch.setattr(softmax, '_kernels', lambda src: cuda)
    monkeypatch.setattr(
        torch.cuda, 'get_device_capability', lambda device: (9, 0)
    )
    stream = SimpleNamespace(cuda_stream=STREAM)
    monkeypatch.setattr(torch.cuda, 'current_stream', lambda device: stream)
    return library_


def problem(dtype, heads, channels, num_edges=300, seed=0):
    """q, k, bias and a directed multigraph with hubs and empty rows."""
    gen = torch.Generator().manual_seed(seed)
    num_src, num_dst = 23, 17
    src = torch.randint(num_src - 1, (num_edges,), generator=gen)
    dst = torch.randint(num_dst - 1, (num_edges,), generator=gen)
    if num_edges > 600:
        dst[:600] = 3
    graph = GraphCache.from_edge_index(
        torch.stack([src, dst]), (num_src, num_dst)
    )
    q = torch.randn(num_dst, heads, channels, generator=gen)
    k = torch.randn(num_src, heads, channels, generator=gen)
    bias = torch.randn(num_edges, heads, generator=gen)
    return (q / channels**0.5).to(dtype), k.to(dtype), bias, graph


def outputs_and_gradients(q, k, bias, graph):
    """Of the public operator, with upstream gradients of the type of q."""
    given = [q, k] if bias is None else [q, k, bias]
    leaves = [t.clone().requires_grad_() for t in given]
    out = energy_attention(*leaves[:2], graph, 1.0, *leaves[2:])
    out = out[0].masked_fill(out[0].isinf(), 0.0), *out[1:]
    gen = torch.Generator().manual_seed(1)
    grads = [torch.randn(t.shape, generator=gen).bfloat16() for t in out]
    grads = [g.to(t.dtype) for g, t in zip(grads, out, strict=True)]
    return [*out, *torch.autograd.grad(out, leaves, grads)]


def check(found, true, dtype):
    for a, b in zip(found, true, strict=True):
        error = (a.double() - b).abs().max() / b.abs().max()
        assert error <= TOLERANCE[dtype]


def compare(q, k, bias, graph):
    found = outputs_and_gradients(q, k, bias, graph)
    assert all(t.is_contiguous() for t in found)
    assert {t.dtype for t in (*found[1:3], *found[3:5])} == {q.dtype}
    wide = None if bias is None else bias.double()
    with use_backend('reference'):
        true = outputs_and_gradients(q.double(), k.double(), wide, graph)
    check(found, true, q.dtype)


@pytest.mark.parametrize('with_bias', [True, False])
@pytest.mark.parametrize('channels', [1, 7, 32])
@pytest.mark.parametrize('heads', [1, 3])
@pytest.mark.parametrize('dtype', list(TOLERANCE))
def test_attention(driver, dtype, heads, channels, with_bias):
    q, k, bias, graph = problem(dtype, heads, channels)
    compare(q, k, bias if with_bias else None, graph)
    assert len(driver.modules) == 1


@pytest.mark.parametrize('channels', [1, 32])
def test_bfloat16_sums_u_again_for_the_gradients(driver, channels):
    """The gradient of the bias, in float32, shows whether tau was exact."""
    problem_ = problem(torch.bfloat16, 2, channels, num_edges=1300)
    q, k, bias, graph = problem_
    grad_bias = outputs_and_gradients(*problem_)[5]
    with use_backend('reference'):
        wide = q.double(), k.double(), bias.double(), graph
        true = outputs_and_gradients(*wide)[5]
    check([grad_bias], [true], torch.float32)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_hubs(driver, dtype):
    compare(*problem(dtype, 3, 12, num_edges=1300))
    assert any('merge' in name for name in driver.names)


@pytest.mark.parametrize(
    ('dtype', 'channels', 'lanes'),
    [(torch.float32, 128, 32), (torch.bfloat16, 256, 32)],
)
def test_the_widest_heads(driver, dtype, channels, lanes):
    compare(*problem(dtype, 2, channels, num_edges=60))
    assert f'TEG_ONLY_LPH={lanes}' in driver.modules[0]


def test_layouts(driver):
    q, k, bias, graph = problem(torch.float32, 2, 8)
    expected = cuda.forward(q, k, bias, graph)
    odd = torch.empty(q.numel() + 1)[1:].view_as(q).copy_(q)
    assert odd.data_ptr() % 16
    crossed = k.transpose(0, 2).contiguous().transpose(0, 2)
    wide = bias.t().contiguous().t().double()
    col = torch.stack([graph.col, graph.col], 1)[:, 0]
    assert not col.is_contiguous()
    graph = replace(graph, col=col)
    found = cuda.forward(odd, crossed, wide, graph)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def test_no_rows_no_launch(driver):
    graph = GraphCache.from_edge_index(torch.empty(2, 0).long(), (3, 0))
    q, k = torch.zeros(0, 2, 4), torch.zeros(3, 2, 4)
    lse, u, v = cuda.forward(q, k, None, graph)
    assert lse.shape == (0, 2)
    assert u.shape == q.shape
    assert torch.equal(v, k)
    assert driver.names == ['ea_fwd_col_f32_l1']


def test_a_graph_that_does_not_fit(driver):
    q, k, _, graph = problem(torch.float32, 1, 4)
    wrong = replace(graph, col=graph.col.long())
    with pytest.raises(ValueError, match=r"expect the array 'other' as"):
        cuda.forward(q, k, None, wrong)


@pytest.mark.parametrize('dtype', list(TOLERANCE))
@pytest.mark.parametrize('features', [1, 5, 40])
def test_softmax(driver, dtype, features):
    gen = torch.Generator().manual_seed(0)
    src = torch.randn(700, features, generator=gen).to(dtype)
    index = torch.randint(6, (700,), generator=gen)
    index[:550] = 2
    grad = torch.randn(700, features, generator=gen).to(dtype)
    leaf = src.clone().requires_grad_()
    out = scatter_softmax(leaf, index, num_nodes=6)
    out.backward(grad)
    wide = src.double().requires_grad_()
    exps = wide.exp()
    sums = torch.stack([exps[index == group].sum(0) for group in range(6)])
    true = exps / sums[index]
    true.backward(grad.double())
    check([out, leaf.grad], [true, wide.grad], dtype)
    assert out.dtype == dtype


def test_the_driver_says_what_it_refuses(driver):
    module = cuda_driver.module(0, 'scatter_softmax.cuh')
    with pytest.raises(RuntimeError, match=r'named symbol not found \(500\)'):
        module.launch(
            STREAM, 'ea_fwd_row_f32_l1', (1, 1), 128, AttentionArgs()
        )
    assert not driver.contexts


@pytest.mark.parametrize('heads', [1, 2, 3, 5, 8])
@pytest.mark.parametrize('channels', [8, 64, 128])
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_sizes_are_those_of_the_cpp_host(emulator, dtype, channels, heads):
    q, _, _, graph = problem(dtype, heads, channels, num_edges=2000)
    sweep, _ = cuda_launch._sweeps(q, graph)
    rows, edges = map(ctypes.c_longlong, (q.size(0), graph.num_edges))
    for number, name in enumerate(
        ['fwd_row', 'fwd_col', 'bwd_row', 'bwd_col']
    ):
        args = AttentionArgs()
        floats = emulator.lib.emulator_prepare(
            ctypes.byref(args),
            ctypes.c_bool(dtype == torch.bfloat16),
            number,
            heads,
            channels,
            rows,
            edges,
        )
        assert sweep.scratch_floats(name) == floats
        for size in (
            'num_rows',
            'most_hubs',
            'num_slots',
            'heads',
            'lph',
            'lpe',
        ):
            assert getattr(sweep, size) == getattr(args, size)
