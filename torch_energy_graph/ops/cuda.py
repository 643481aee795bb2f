"""The `cuda` backend: kernels built with the package, else by NVRTC.

The kernels want heads of 1 to 32 vectors of 16 bytes, a power of two of
them: other sizes are padded with zero channels, which change no logit. Half
precision other than bfloat16 is computed in float32.

:envvar:`TEG_CUDA_KERNELS` chooses ``aot`` (built with the package), ``nvrtc``
(compiled at first use) or ``auto``: the first that can be used.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
from functools import cache, partial

import torch
from torch import Tensor

from . import cuda_driver, cuda_launch, native, nvrtc
from .graph import GraphCache

__all__ = [
    'backward',
    'forward',
    'softmax_backward',
    'softmax_forward',
    'status',
    'supports',
    'supports_softmax',
]

_log = logging.getLogger('torch_energy_graph')
_VECTOR = 16  # bytes
_MAX_VECTORS = 32  # of a head
_MAX_GRID = 65535
_INT32_MAX = 2**31 - 1
_TYPES = {
    torch.float32: torch.float32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.bfloat16,
}


def _read_setting() -> str:
    value = os.environ.get('TEG_CUDA_KERNELS') or 'auto'
    if value not in ('auto', 'aot', 'nvrtc'):
        raise ValueError(
            f"'TEG_CUDA_KERNELS' expects auto, aot or nvrtc (got {value!r})"
        )
    return value


_SETTING = _read_setting()


@cache
def status() -> tuple[bool, str]:
    """Whether the current GPU has kernels, and which, or why not."""
    if torch.version.cuda is None:
        return False, 'not usable: this PyTorch was built without CUDA'
    if not torch.cuda.is_available():
        return False, 'not usable: PyTorch finds no GPU'
    kind, reason = _choice(torch.cuda.current_device())
    return kind is not None, reason


def supports(q: Tensor) -> bool:
    """Whether there is a CUDA kernel for queries of this type and size.

    Raises:
        RuntimeError: If it does not compile, and ``TEG_CUDA_KERNELS=nvrtc``.
    """
    if q.dtype not in _TYPES or not 1 <= q.size(1) <= _MAX_GRID:
        return False
    size = _padded(q) * _TYPES[q.dtype].itemsize
    if q.size(2) == 0 or size > _MAX_VECTORS * _VECTOR:
        return False
    return _ready(q.device, *_attention(_TYPES[q.dtype], size // _VECTOR))


def supports_softmax(src: Tensor) -> bool:
    """Whether there is a CUDA kernel for scores [E, F] of this type.

    Raises:
        RuntimeError: If it does not compile, and ``TEG_CUDA_KERNELS=nvrtc``.
    """
    fits = src.size(0) <= _INT32_MAX and src.size(1) <= 32 * _MAX_GRID
    return fits and src.dtype in _TYPES and _ready(src.device, *_SOFTMAX)


def forward(
    q: Tensor, k: Tensor, bias: Tensor | None, graph: GraphCache
) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluates Eq. (1) and (2) of the reference."""
    given, channels = q.dtype, q.size(2)
    q, k, bias = _stored(q), _stored(k), _summed(bias)
    graph = _packed(graph)
    if _kind(q.device) == 'aot':
        op = native.operators.attention_forward
        lse, u, v = op(q, k, bias, *graph.arrays())
    else:
        launch = _launcher(q.device, *_attention_of(q))
        lse, u, v = cuda_launch.attention_forward(launch, q, k, bias, graph)
    return lse, _given(u, given, channels), _given(v, given, channels)


def backward(
    grads: tuple[Tensor, Tensor, Tensor],
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    lse: Tensor,
    u: Tensor,
    graph: GraphCache,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Evaluates Eq. (3) to (5) of the reference."""
    given, channels = q.dtype, q.size(2)
    wide, graph = _summed(bias), _packed(graph)
    lse, grad_lse = lse.contiguous(), grads[0].float().contiguous()
    grad_u, grad_v, q, k, u = map(_stored, (*grads[1:], q, k, u))
    if _kind(q.device) == 'aot':
        op = native.operators.attention_backward
        inputs = grad_lse, grad_u, grad_v, q, k, wide, lse, u
        grad_q, grad_k, grad_bias = op(*inputs, *graph.arrays())
    else:
        launch = _launcher(q.device, *_attention_of(q))
        grads = grad_lse, grad_u, grad_v
        grad_q, grad_k, grad_bias = cuda_launch.attention_backward(
            launch, grads, q, k, wide, lse, u, graph
        )
    grad_q, grad_k = (_given(t, given, channels) for t in (grad_q, grad_k))
    return grad_q, grad_k, None if bias is None else grad_bias.to(bias.dtype)


def softmax_forward(src: Tensor, ptr: Tensor, perm: Tensor | None) -> Tensor:
    """Softmax of every column within groups, as the native operator."""
    given, src = src.dtype, _columns(src)
    if _kind(src.device) == 'aot':
        out = native.operators.softmax_forward(src, ptr, perm)
    else:
        launch = _launcher(src.device, *_SOFTMAX)
        out = cuda_launch.softmax_forward(launch, src, ptr, perm)
    return out.to(given)


def softmax_backward(
    grad: Tensor, out: Tensor, ptr: Tensor, perm: Tensor | None
) -> Tensor:
    """Gradient of the scores, as the native operator."""
    given, grad, out = out.dtype, _columns(grad), _columns(out)
    if _kind(out.device) == 'aot':
        grad_src = native.operators.softmax_backward(grad, out, ptr, perm)
    else:
        launch = _launcher(out.device, *_SOFTMAX)
        grad_src = cuda_launch.softmax_backward(launch, grad, out, ptr, perm)
    return grad_src.to(given)


@cache
def _choice(device: int) -> tuple[str | None, str]:
    """`aot`, `nvrtc` or None for a GPU, and the reason."""
    built = jit = f'TEG_CUDA_KERNELS={_SETTING}'
    if _SETTING != 'nvrtc':
        found = _aot_problem(device)
        if found is None:
            return 'aot', 'CUDA kernels built with the package'
        built = found
    if _SETTING != 'aot':
        found = nvrtc.problem() or cuda_driver.problem()
        if found is None:
            return 'nvrtc', (
                f'CUDA kernels compiled at first use by NVRTC '
                f'{nvrtc.compiler().version} (those of the package: {built})'
            )
        jit = found
    return None, (
        f'not usable: no kernels built with the package ({built}), and none '
        f'from NVRTC ({jit})'
    )


def _aot_problem(device: int) -> str | None:
    if native.build_error is not None:
        return 'no native extension'
    name = 'torch_energy_graph_native::attention_forward'
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, 'CUDA'):
        return 'built without nvcc'
    extension = importlib.import_module('torch_energy_graph._C')
    library = ctypes.CDLL(str(extension.__file__))
    library.teg_cuda_problem.restype = ctypes.c_char_p
    reason = library.teg_cuda_problem(device)
    if reason is None:
        return None
    version = library.teg_cuda_version()
    major, minor = version // 1000, version % 1000 // 10
    return f'{reason.decode()}; built with CUDA {major}.{minor}'


def _kind(device: torch.device) -> str | None:
    return _choice(device.index)[0]


# which kernels NVRTC compiles together: a header, and macros
_SOFTMAX = ('scatter_softmax.cuh',)


def _attention(dtype: torch.dtype, lanes: int) -> tuple[str, str, str]:
    only = f'TEG_ONLY_{cuda_launch.suffix(dtype).upper()}'
    return 'attention.cuh', only, f'TEG_ONLY_LPH={lanes}'


def _attention_of(q: Tensor) -> tuple[str, str, str]:
    return _attention(q.dtype, cuda_launch.lanes_per_head(q))


def _launcher(
    device: torch.device, header: str, *macros: str
) -> cuda_launch.Launch:
    module = cuda_driver.module(device.index, header, *macros)
    stream = torch.cuda.current_stream(device).cuda_stream
    return partial(module.launch, stream)


@cache
def _ready(device: torch.device, header: str, *macros: str) -> bool:
    kind = _kind(device)
    if kind != 'nvrtc':
        return kind is not None
    try:
        cuda_driver.module(device.index, header, *macros)
    except RuntimeError as error:
        if _SETTING == 'nvrtc':
            raise
        _log.warning('PyTorch takes the place of a kernel: %s', error)
        return False
    return True


def _padded(q: Tensor) -> int:
    """Channels with those that are added."""
    smallest = _VECTOR // _TYPES[q.dtype].itemsize
    return max(smallest, 1 << (q.size(2) - 1).bit_length())


def _stored(tensor: Tensor) -> Tensor:
    """In a type and size of the kernels, contiguous and on 16 bytes."""
    missing = _padded(tensor) - tensor.size(2)
    tensor = tensor.to(_TYPES[tensor.dtype])
    if missing:
        return torch.nn.functional.pad(tensor, (0, missing))
    tensor = tensor.contiguous()
    # a view may start anywhere
    return tensor if tensor.data_ptr() % _VECTOR == 0 else tensor.clone()


def _given(tensor: Tensor, dtype: torch.dtype, channels: int) -> Tensor:
    """In the type and size of the caller."""
    return tensor[..., :channels].to(dtype).contiguous()


def _summed(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.float().contiguous()


def _packed(graph: GraphCache) -> GraphCache:
    return GraphCache(*(array.contiguous() for array in graph.arrays()))


def _columns(tensor: Tensor) -> Tensor:
    return tensor.to(_TYPES[tensor.dtype]).contiguous()
