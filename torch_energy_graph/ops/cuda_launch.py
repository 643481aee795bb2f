"""Which CUDA kernels run on which grids, with which arguments.

The Python counterpart of ``csrc/cuda/launch.cuh``, for kernels that were
compiled at run time. It allocates the results and calls ``launch`` for every
kernel; what that does is up to :mod:`.cuda_driver`.

Scratch memory may be given back before the kernels have run: the allocator
of PyTorch hands it out again only to later work of the same stream, and no
other stream sees it, so that ``record_stream`` is not needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from .graph import GraphCache
from .plan import CHUNK

__all__ = [
    'AttentionArgs',
    'Launch',
    'SoftmaxArgs',
    'attention_backward',
    'attention_forward',
    'lanes_per_head',
    'softmax_backward',
    'softmax_forward',
    'suffix',
]

_VECTOR = 16  # bytes of a lane
_WARP = 32
_SWEEP_WARPS = 4
_MERGE_WARPS = 8
_GROUP_WARPS = 8
_GRAPH = ('ptr', 'other', 'edge', 'order', 'chunks')
_TENSORS = (
    *('q', 'k', 'bias', 'lse', 'u', 'v', 'grad_lse', 'grad_u', 'grad_v'),
    *('lse_tau', 'grad_q', 'grad_k', 'grad_bias', 'scratch'),
)
_SIZES = ('num_rows', 'most_hubs', 'num_slots', 'heads', 'lph', 'lpe')

# kernel, (x, y) of the grid, threads of a block, argument by value
Launch: TypeAlias = Callable[
    [str, tuple[int, int], int, ctypes.Structure], None
]


class AttentionArgs(ctypes.Structure):
    """``Args`` of ``csrc/cuda/attention_args.cuh``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (*_GRAPH, *_TENSORS)),
        *((name, ctypes.c_int) for name in _SIZES),
    )


class SoftmaxArgs(ctypes.Structure):
    """``SoftmaxArgs`` of ``csrc/cuda/scatter_softmax.cuh``."""

    _fields_ = (
        *((n, ctypes.c_void_p) for n in ('src', 'grad', 'out', 'ptr', 'perm')),
        ('num_groups', ctypes.c_longlong),
        ('features', ctypes.c_int),
        ('width', ctypes.c_int),
    )


def suffix(dtype: torch.dtype) -> str:
    """What the names of kernels call a type of storage."""
    return 'bf16' if dtype == torch.bfloat16 else 'f32'


def lanes_per_head(q: Tensor) -> int:
    """Lanes that hold a head of 16-byte vectors, a power of two to 32."""
    return q.size(2) * q.element_size() // _VECTOR


def attention_forward(
    launch: Launch,
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    graph: GraphCache,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Evaluates Eq. (1) and (2) of the reference.

    Args:
        launch (callable): Starts a kernel.
        q (Tensor): Queries, :math:`[N_\mathrm{dst}, H, Y]`, float32 or
            bfloat16, contiguous and on 16 bytes, as all tensors here.
        k (Tensor): Keys, :math:`[N_\mathrm{src}, H, Y]`.
        bias (Tensor, optional): float32, :math:`[E, H]`.
        graph (GraphCache): Edges, on the same device.
    """
    lse = q.new_empty(q.shape[:2], dtype=torch.float32)
    u, v = torch.empty_like(q), torch.empty_like(k)
    by_target, by_source = _sweeps(q, graph)
    common = {'q': q, 'k': k, 'bias': bias, 'lse': lse}
    _run(launch, 'fwd_row', by_target, **common, u=u)
    _run(launch, 'fwd_col', by_source, **common, v=v)
    return lse, u, v


def attention_backward(
    launch: Launch,
    grads: tuple[Tensor, Tensor, Tensor],
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    lse: Tensor,
    u: Tensor,
    graph: GraphCache,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Evaluates Eq. (3) to (5) of the reference; see the forward pass."""
    grad_lse, grad_u, grad_v = grads
    grad_q, grad_k = torch.empty_like(q), torch.empty_like(k)
    grad_bias = None if bias is None else torch.empty_like(bias)
    pairs = lse.new_empty(*lse.shape, 2)
    by_target, by_source = _sweeps(q, graph)
    common = {'q': q, 'k': k, 'bias': bias, 'lse_tau': pairs}
    common |= {'grad_u': grad_u, 'grad_v': grad_v}
    row = {'lse': lse, 'u': u, 'grad_lse': grad_lse, 'grad_q': grad_q}
    _run(launch, 'bwd_row', by_target, **common, **row)
    col = {'grad_k': grad_k, 'grad_bias': grad_bias}
    _run(launch, 'bwd_col', by_source, **common, **col)
    return grad_q, grad_k, grad_bias


def softmax_forward(
    launch: Launch, src: Tensor, ptr: Tensor, perm: Tensor | None
) -> Tensor:
    """Softmax of every column within groups.

    Args:
        launch (callable): Starts a kernel.
        src (Tensor): Scores, :math:`[E, F]`, float32 or bfloat16, contiguous.
        ptr (LongTensor): Boundaries of the groups, :math:`[N + 1]`.
        perm (IntTensor, optional): Rows of src, group by group, :math:`[E]`.
    """
    out = torch.empty_like(src)
    _run_softmax(launch, 'forward', src, out, ptr, perm)
    return out


def softmax_backward(
    launch: Launch, grad: Tensor, out: Tensor, ptr: Tensor, perm: Tensor | None
) -> Tensor:
    """Gradient of the scores, from that of the softmax `out`."""
    grad_src = torch.empty_like(out)
    _run_softmax(launch, 'backward', out, grad_src, ptr, perm, grad)
    return grad_src


@dataclass(frozen=True)
class _Sweep:
    """One order of the edges, and how the lanes of a warp share a row."""

    dtype: torch.dtype

    arrays: tuple[Tensor, ...]
    num_rows: int
    most_hubs: int
    num_slots: int
    heads: int
    lph: int
    lpe: int

    @property
    def groups(self) -> int:
        """Groups of heads, for as many blocks."""
        return -(-self.heads * self.lph // self.lpe)

    def scratch_floats(self, name: str) -> int:
        """Partial sums that the pieces of hubs leave behind in a pass."""
        size = _VECTOR // self.dtype.itemsize
        u_again = self.dtype == torch.bfloat16
        lane = {'fwd_row': size + 2, 'bwd_row': (2 + u_again) * size}
        return self.num_slots * self.groups * self.lpe * lane.get(name, size)


def _sweeps(q: Tensor, graph: GraphCache) -> tuple[_Sweep, _Sweep]:
    g, heads, lph = graph, q.size(1), lanes_per_head(q)
    lanes = heads, lph, min(_WARP, lph * _power_of_two(heads))
    by_target = g.rowptr, g.col, g.edge_row, g.dst_order, g.dst_chunks
    by_source = g.colptr, g.row, g.edge_col, g.src_order, g.src_chunks
    pieces = g.num_edges // CHUNK

    def sweep(arrays: tuple[Tensor, ...], num_rows: int) -> _Sweep:
        hubs = min(num_rows, pieces)
        _check(arrays, num_rows, g.num_edges, hubs, q.device)
        return _Sweep(q.dtype, arrays, num_rows, hubs, 2 * pieces, *lanes)

    return sweep(by_target, q.size(0)), sweep(by_source, g.num_src)


def _check(
    arrays: tuple[Tensor, ...],
    num_rows: int,
    num_edges: int,
    hubs: int,
    device: torch.device,
) -> None:
    sizes = num_rows + 1, num_edges, num_edges, num_rows, hubs + 1
    types = (torch.int64, *[torch.int32] * 4)
    for name, a, size, dtype in zip(_GRAPH, arrays, sizes, types, strict=True):
        found = tuple(a.shape), a.dtype, a.device
        if found != ((size,), dtype, device) or not a.is_contiguous():
            raise ValueError(
                f"'GraphCache': the kernels expect the array {name!r} as "
                f'{dtype} [{size}] on {device} (got {a.dtype} '
                f'{list(a.shape)} on {a.device}); build it with '
                f'from_edge_index'
            )


def _run(
    launch: Launch, name: str, sweep: _Sweep, **tensors: Tensor | None
) -> None:
    """One pass: the edges, then the pieces of the hubs."""
    if sweep.num_rows == 0:
        return
    kind, groups = suffix(sweep.dtype), sweep.groups
    scratch = torch.empty(
        sweep.scratch_floats(name),
        dtype=torch.float32,
        device=sweep.arrays[0].device,
    )
    tensors |= dict(zip(_GRAPH, sweep.arrays, strict=True))
    args = AttentionArgs(**{n: getattr(sweep, n) for n in _SIZES})
    for field, tensor in {**tensors, 'scratch': scratch}.items():
        setattr(args, field, _address(tensor))
    blocks = -(-(sweep.num_slots + sweep.num_rows) // _SWEEP_WARPS)
    threads = _SWEEP_WARPS * _WARP
    launch(f'ea_{name}_{kind}_l{sweep.lph}', (blocks, groups), threads, args)
    if sweep.num_slots > 0:
        grid, threads = (sweep.most_hubs, groups), _MERGE_WARPS * _WARP
        launch(f'ea_{name}_merge_{kind}', grid, threads, args)


def _run_softmax(
    launch: Launch,
    direction: str,
    src: Tensor,
    out: Tensor,
    ptr: Tensor,
    perm: Tensor | None,
    grad: Tensor | None = None,
) -> None:
    num_groups, features = ptr.numel() - 1, src.size(1)
    if num_groups == 0 or features == 0:
        return
    width = min(_WARP, _power_of_two(features))
    args = SoftmaxArgs(
        *map(_address, (src, grad, out, ptr, perm)),
        *(num_groups, features, width),
    )
    grid = -(-num_groups // _GROUP_WARPS), -(-features // width)
    name = f'scatter_softmax_{direction}_{suffix(src.dtype)}'
    launch(name, grid, _GROUP_WARPS * _WARP, args)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
