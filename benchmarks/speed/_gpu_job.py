"""Stages of the GPU check; each yields rows, and may fail alone."""

import ctypes
import platform
import time
import traceback
from functools import partial
from importlib import metadata

import torch
import torch.nn.functional as F
from _device import median_ms, peak_mib
from _gpu_values import TOLERANCES, check_values
from _graphs import edge_list, skewed_csr
from _jobs import serve
from _measure import Missing, difference, versions
from _peers import (
    OURS,
    Problem,
    all_methods,
    our_backends,
    our_side,
    pyg_side,
)

from torch_geometric.utils import softmax

from torch_energy_graph.ops import backends, scatter_softmax, use_backend

GRAPHS = {'yelpchi': (45_954, 3_850_000), 't-finance': (39_357, 42_445_086)}
HEADS, CHANNELS = 4, 32
DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16}
TILES = ((1, 16), (2, 16), (4, 16), (4, 32))  # warps, edges at a time


def our_backend(job):
    """The backend under test; a rehearsal takes the best of the CPU."""
    return 'cuda' if job['device'] == 'cuda' else our_backends('cpu')[0]


def problems(job, names=tuple(GRAPHS)):
    """Name of graph and type, and the inputs on the device."""
    for graph in names:
        num_nodes, num_edges = GRAPHS[graph]
        if job['small']:
            num_nodes, num_edges = num_nodes // 100, num_edges // 1_000
        edges = edge_list(*skewed_csr(num_nodes, num_edges))
        for dtype, kind in DTYPES.items():
            yield (
                {'graph': graph, 'edges': num_edges, 'dtype': dtype},
                Problem.draw(
                    edges,
                    num_nodes,
                    HEADS,
                    CHANNELS,
                    dtype=kind,
                    device=job['device'],
                ),
            )


def facts(job):
    row = {
        'cuda_available': torch.cuda.is_available(),
        'cuda': torch.version.cuda,
        'python': platform.python_version(),
        'machine': platform.machine(),
        **versions(),
    }
    for package in ('triton', 'torch-geometric', 'torch-scatter'):
        try:
            row[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            row[package] = None
    if row['cuda_available']:
        version = ctypes.c_int()
        ctypes.CDLL('libcuda.so.1').cuDriverGetVersion(ctypes.byref(version))
        device = torch.cuda.get_device_properties(0)
        row |= {
            'driver_cuda': version.value,
            'device': device.name,
            'capability': f'{device.major}.{device.minor}',
            'processors': device.multi_processor_count,
            'l2_mib': device.L2_cache_size / 2**20,
            'memory_gib': device.total_memory / 2**30,
        }
    yield row


def status(job):
    for name, state in backends().items():
        yield {
            'backend': name,
            'available': state.available,
            'active': state.active,
            'reason': state.reason,
        }


def correctness(job):
    yield from check_values(our_backend(job), job['device'])


def ceilings(job):
    """Bytes per second of a copy, and of gathering rows of 512 bytes."""
    device, scale = job['device'], 100 if job['small'] else 1
    source = torch.empty(2**28 // scale, device=device)
    target = torch.empty_like(source)
    ms = median_ms(partial(target.copy_, source), device)
    moved = 2 * 4 * source.numel()
    yield {'what': 'copy', 'bytes': moved, 'gb_per_s': moved / ms / 1e6}
    source = target = None
    for name, rows in (('24 MB', 45_954), ('1.5 GB', 3_000_000)):
        for call, ms in gathers(rows // scale, 3_850_000 // scale, device):
            rate = 512 * (3_850_000 // scale) / ms / 1e6
            yield {'what': call, 'table': name, 'ms': ms, 'gb_per_s': rate}


def gathers(num_rows, count, device):
    """Milliseconds of gathering random rows of 128 floats, in two ways."""
    table = torch.randn(num_rows, 128, device=device)
    index = torch.randint(num_rows, (count,), device=device)
    out = torch.empty(count, 128, device=device)
    select = partial(torch.index_select, table, 0, index, out=out)
    yield 'index_select', median_ms(select, device)
    # sums what it reads, in bags of the mean degree, and writes little
    bags = torch.arange(0, count, 84, device=device)
    sums = partial(F.embedding_bag, index, table, bags, mode='sum')
    yield 'embedding_bag', median_ms(sums, device)


def speed(job):
    """Our kernels: times, and rates of gathering rows [H * Y]."""
    for known, problem in problems(job):
        side = our_side(our_backend(job), problem)
        start = time.perf_counter()
        side.value()
        side.gradients()
        first = time.perf_counter() - start  # compiles, with NVRTC
        forward = median_ms(side.value, job['device'])
        backward = backward_ms(side, job['device'])
        size = HEADS * CHANNELS * problem.q.element_size()  # of a row
        yield {
            **known,
            'first_s': first,
            'forward_ms': forward,
            'backward_ms': backward,
            'train_ms': median_ms(side.gradients, job['device']),
            'forward_gb_per_s': 2 * known['edges'] * size / forward / 1e6,
            'backward_gb_per_s': 4 * known['edges'] * size / backward / 1e6,
        }


def backward_ms(side, device):
    """Milliseconds of the backward pass alone."""
    with side.context():
        pull = partial(
            torch.autograd.grad,
            side.forward(),
            side.inputs,
            side.weights,
            retain_graph=True,
        )
        return median_ms(pull, device)


def memory(job):
    """Peak above the inputs, against three times the node tensors."""
    for known, problem in problems(job):
        side = our_side(our_backend(job), problem)
        side.gradients()
        nodes = 2 * problem.q.numel() * problem.q.element_size() / 2**20
        yield {
            **known,
            'nodes_mib': nodes,
            'forward_mib': peak_mib(side.value, job['device']),
            'train_mib': peak_mib(side.gradients, job['device']),
        }


def softmaxes(job):
    """Ours against PyG's, on scores [E, H]."""
    for known, problem in problems(job, ['yelpchi']):
        index, ptr = problem.edge_index[1], problem.graph.rowptr
        scores = torch.randn(index.size(0), HEADS).to(problem.q)
        size = problem.num_nodes
        expected = softmax(scores.double(), index, num_nodes=size)
        tolerance = TOLERANCES[scores.dtype]
        for by in ({'index': index, 'num_nodes': size}, {'ptr': ptr}):
            ours = partial(scatter_softmax, scores, **by)
            pyg = partial(softmax, scores, **by)
            with use_backend(our_backend(job)):
                gap = difference([ours().double()], [expected])
                ms = median_ms(ours, job['device'])
            yield {
                **known,
                'by': next(iter(by)),
                'ms': ms,
                'pyg_ms': median_ms(pyg, job['device']),
                'difference': gap,
                'ok': gap <= tolerance,
            }


def triton_forward(job):
    """The Triton version, in several shapes of its tiles."""
    if job['device'] == 'cpu':
        raise Missing('Triton needs a GPU; a test runs its interpreter')
    from triton_attention import energy_attention

    for known, problem in problems(job):
        expected = None
        if known['graph'] == 'yelpchi':  # else PyG takes too much memory
            expected = pyg_side(problem).value()[1:]  # u, v
        q, k = problem.q.detach(), problem.k.detach()
        inputs = (q, k, problem.graph, problem.beta)
        for num_warps, block in TILES:
            row = {**known, 'warps': num_warps, 'block': block}
            call = partial(energy_attention, *inputs, num_warps, block)
            if expected is not None:
                row['difference'] = difference(call()[1:], expected)
            yield {**row, 'forward_ms': median_ms(call, job['device'])}


def peers(job):
    """Peers on the smaller graph: edge-wise tensors must fit."""
    device = job['device']
    for known, problem in problems(job, ['yelpchi']):
        for name, build in all_methods(device).items():
            if name == OURS + our_backend(job):
                continue
            row = {**known, 'method': name}
            try:
                side = build(problem)
                row['forward_ms'] = median_ms(side.value, device)
                row['train_ms'] = median_ms(side.gradients, device)
            except Exception as error:  # each may fail alone
                row['missing'] = str(error).strip().partition('\n')[0]
            yield row


STAGES = {
    'facts': facts,
    'status': status,
    'correctness': correctness,
    'ceilings': ceilings,
    'speed': speed,
    'memory': memory,
    'softmax': softmaxes,
    'triton': triton_forward,
    'peers': peers,
}


def work(job):
    for name in job['stages']:
        start = time.perf_counter()
        try:
            for row in STAGES[name](job):
                yield {'stage': name, **row}
        except (Missing, ModuleNotFoundError) as error:
            yield {'stage': name, 'missing': str(error)}
        except Exception:
            yield {'stage': name, 'error': traceback.format_exc(limit=-4)}
        seconds = round(time.perf_counter() - start, 1)
        yield {'stage': name, 'seconds': seconds}


if __name__ == '__main__':
    serve(work)
