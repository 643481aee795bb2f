"""Which implementation evaluates the operators, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from . import cuda, native

__all__ = ['BackendStatus', 'active_backend', 'backends', 'use_backend']

_ISA = {
    'generic': 'any CPU',
    'v3': 'AVX2',
    'v4': 'AVX-512',
}


@dataclass(frozen=True)
class BackendStatus:
    """State of one backend.

    Args:
        name (str): Name, as :envvar:`TEG_BACKEND` takes it.
        available (bool): Whether it can be used in this process.
        active (bool): Whether calls go to it now: by default those on the CPU
            to ``cpu`` and those on a GPU to ``cuda``, where they are
            available, and else to ``torch``.
        reason (str): What it is, or why it is not available.
    """

    name: str
    available: bool
    active: bool
    reason: str


def active_backend(device: str) -> str:
    """Name of the backend that evaluates the operators on a type of device.

    Args:
        device (str): ``'cpu'``, ``'cuda'``, ...
    """
    if _forced in ('torch', 'reference'):
        return _forced
    return device if device in _kernels and _usable(device) else 'torch'


def backends() -> dict[str, BackendStatus]:
    """State of every backend, by name."""
    found = _found()
    devices = ['cpu', *(['cuda'] if _has_cuda() else [])]
    active = {active_backend(device) for device in devices}
    return {
        name: BackendStatus(name, available, name in active, reason)
        for name, (available, reason) in found.items()
    }


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Evaluates the operators with another backend inside a ``with`` block.

    ``cpu`` and ``cuda`` serve their own device; other devices go on with
    ``torch``. The choice holds for the whole process, not for one thread.

    Args:
        name (str): One of :func:`backends`.

    Raises:
        ValueError: If there is no such backend, or not in this installation.
    """
    global _forced, _kernels
    before = _forced, _kernels
    _forced, _kernels = _chosen(name, "'use_backend'")
    try:
        yield
    finally:
        _forced, _kernels = before


def _found() -> dict[str, tuple[bool, str]]:
    return {
        'cpu': _cpu(),
        'cuda': cuda.status(),
        'torch': (True, 'PyTorch CSR kernels behind a registered operator'),
        'reference': (
            True,
            'plain PyTorch, edge by edge: the definition, slow',
        ),
    }


def _cpu() -> tuple[bool, str]:
    if native.build_error is not None:
        return False, (
            f'not built ({native.build_error}); TEG_BUILD_EXT=1 pip install '
            f'--no-build-isolation shows why'
        )
    return True, f'compiled C++ kernels for {_ISA[native.cpu_isa()]}'


def _usable(device: str) -> bool:
    # asked at the first call: looking for a GPU would make imports slow
    return native.build_error is None if device == 'cpu' else cuda.status()[0]


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _chosen(name: str | None, where: str) -> tuple[str | None, frozenset[str]]:
    """The forced backend, and the devices that use kernels if they can."""
    kernels = frozenset(('cpu', 'cuda'))
    if name is None:
        return None, kernels
    found = _found()
    if name not in found:
        raise ValueError(
            f'{where} expects one of {sorted(found)} (got {name!r})'
        )
    available, reason = found[name]
    if not available:
        raise ValueError(f'{where}: backend {name!r} is {reason}')
    return name, kernels & {name}


_forced, _kernels = _chosen(
    os.environ.get('TEG_BACKEND') or None, "'TEG_BACKEND'"
)
