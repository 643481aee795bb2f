import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import torch_energy_graph
from torch_energy_graph.ops.cuda_launch import AttentionArgs, SoftmaxArgs

CSRC = Path(torch_energy_graph.__file__).parent / 'csrc'
PASSES = ['fwd_row', 'fwd_col', 'bwd_row', 'bwd_col']

GRADS = ['grad_lse', 'grad_u', 'grad_v']
GRAPH = ['ptr', 'other', 'edge', 'order', 'chunks']


class Outputs:
    """Tensors full of NaN, between margins that nobody may touch."""

    MARGIN = 64

    def __init__(self):
        self.whole = []

    def new(self, *shape, dtype=torch.float32):
        size = torch.Size(shape).numel()
        whole = torch.full((size + 2 * self.MARGIN,), torch.nan, dtype=dtype)
        self.whole.append(whole)
        return whole[self.MARGIN : self.MARGIN + size].view(shape)

    def check(self):
        for whole in self.whole:
            assert whole[: self.MARGIN].isnan().all()
            assert whole[-self.MARGIN :].isnan().all()


class Emulator:
    """The CUDA kernels on the CPU: forward, backward and softmax."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(str(path))
        self.lib.emulator_prepare.restype = ctypes.c_longlong
        self.lib.emulator_pass.restype = ctypes.c_char_p
        self.lib.emulator_softmax.restype = ctypes.c_char_p
        self.lib.emulator_launch.restype = ctypes.c_char_p
        self.lib.emulator_launch_softmax.restype = ctypes.c_char_p
        self.lib.emulator_deadlock.restype = ctypes.c_char_p
        self.lib.emulator_fresh_shared.restype = ctypes.c_float

    def backwards(self, on):
        self.lib.emulator_backwards(ctypes.c_bool(on))

    def launch(self, name, grid, threads, args):
        """One kernel, found by its name: what the Python launcher calls."""
        run = self.lib.emulator_launch
        if name.startswith('scatter_softmax'):
            run = self.lib.emulator_launch_softmax
        kernel = ctypes.cast(self.lib[name], ctypes.c_void_p)
        error = run(kernel, *grid, threads, ctypes.byref(args))
        assert error is None, error

    def _run(self, name, graph, outputs, **tensors):
        number = PASSES.index(name)
        if name.endswith('row'):
            arrays = [graph.rowptr, graph.col, graph.edge_row]
            arrays += [graph.dst_order, graph.dst_chunks]
        else:
            arrays = [graph.colptr, graph.row, graph.edge_col]
            arrays += [graph.src_order, graph.src_chunks]
        args = AttentionArgs()
        q = tensors['q']
        is_bf16 = ctypes.c_bool(q.dtype == torch.bfloat16)
        rows, edges = arrays[0].numel() - 1, graph.num_edges
        floats = self.lib.emulator_prepare(
            ctypes.byref(args),
            is_bf16,
            number,
            q.size(1),
            q.size(2),
            ctypes.c_longlong(rows),
            ctypes.c_longlong(edges),
        )
        assert args.most_hubs == arrays[4].numel() - 1
        tensors['scratch'] = outputs.new(floats)
        tensors.update(zip(GRAPH, arrays, strict=True))
        for key, tensor in tensors.items():
            assert tensor is None or tensor.is_contiguous()
            setattr(args, key, None if tensor is None else tensor.data_ptr())
        error = self.lib.emulator_pass(ctypes.byref(args), is_bf16, number)
        assert error is None, error

    def forward(self, q, k, graph, bias=None):
        outputs = Outputs()
        lse = outputs.new(q.size(0), q.size(1))
        u = outputs.new(*q.shape, dtype=q.dtype)
        v = outputs.new(*k.shape, dtype=k.dtype)
        common = {'q': q, 'k': k, 'bias': bias, 'lse': lse}
        self._run('fwd_row', graph, outputs, **common, u=u)
        self._run('fwd_col', graph, outputs, **common, v=v)
        outputs.check()
        return lse, u, v

    def backward(self, grads, q, k, graph, bias, lse, u):
        outputs = Outputs()
        grad_q = outputs.new(*q.shape, dtype=q.dtype)
        grad_k = outputs.new(*k.shape, dtype=k.dtype)
        lse_tau = outputs.new(*lse.shape, 2)
        grad_bias = None if bias is None else outputs.new(*bias.shape)
        common = {'q': q, 'k': k, 'bias': bias, 'lse_tau': lse_tau}
        common.update(zip(GRADS, grads, strict=True))
        self._run(
            'bwd_row', graph, outputs, **common, lse=lse, u=u, grad_q=grad_q
        )
        self._run(
            'bwd_col',
            graph,
            outputs,
            **common,
            grad_k=grad_k,
            grad_bias=grad_bias,
        )
        outputs.check()
        return grad_q, grad_k, grad_bias

    def softmax(self, src, ptr, perm=None, grad=None):
        """The softmax; with `grad`, its gradient at the softmax `src`."""
        outputs = Outputs()
        out = outputs.new(*src.shape, dtype=src.dtype)
        args = SoftmaxArgs(
            src=src.data_ptr(),
            grad=None if grad is None else grad.data_ptr(),
            out=out.data_ptr(),
            ptr=ptr.data_ptr(),
            perm=None if perm is None else perm.data_ptr(),
            num_groups=ptr.numel() - 1,
            features=src.size(1),
        )
        error = self.lib.emulator_softmax(
            ctypes.byref(args),
            ctypes.c_bool(src.dtype == torch.bfloat16),
            ctypes.c_bool(grad is not None),
        )
        assert error is None, error
        outputs.check()
        return out


@pytest.fixture(scope='session')
def csrc():
    """Folder of the native sources."""
    return CSRC


@pytest.fixture(scope='session')
def emulator(tmp_path_factory):
    """The CUDA kernels, compiled for the CPU emulator with g++."""
    compiler = shutil.which('g++')
    if compiler is None:
        pytest.skip('no g++ on the PATH')
    library = tmp_path_factory.mktemp('emulator') / 'emulator.so'
    command = [compiler, '-std=c++17', '-O1']
    # the pragmas are for nvcc, and the emulator jumps between stacks
    command += ['-Wno-unknown-pragmas', '-U_FORTIFY_SOURCE']
    # or it would take the table of kernels of the extension in this process
    command += ['-fno-gnu-unique']
    command += ['-DTEG_EMULATOR', '-shared', '-fPIC', '-o', str(library)]
    command += [str(CSRC / 'emulator' / 'driver.cpp')]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Emulator(library)
