"""Which implementation evaluates the operators, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ['BackendStatus', 'active_backend', 'backends', 'use_backend']

_REASONS = {
    'torch': 'PyTorch CSR kernels behind a registered operator',
    'reference': 'plain PyTorch, edge by edge: the definition, slow',
}


@dataclass(frozen=True)
class BackendStatus:
    """State of one backend.

    Args:
        name (str): Name, as :envvar:`TEG_BACKEND` takes it.
        available (bool): Whether it can be used in this process.
        active (bool): Whether calls go to it now.
        reason (str): What it is, or why it is not available.
    """

    name: str
    available: bool
    active: bool
    reason: str


def _checked(name: str, where: str) -> str:
    if name not in _REASONS:
        raise ValueError(
            f'{where} expects one of {sorted(_REASONS)} (got {name!r})'
        )
    return name


_active = _checked(os.environ.get('TEG_BACKEND', 'torch'), "'TEG_BACKEND'")


def active_backend() -> str:
    """Name of the backend that evaluates the operators now."""
    return _active


def backends() -> dict[str, BackendStatus]:
    """State of every backend, by name.

    Returns:
        dict: Name to :class:`BackendStatus`; exactly one is active.
    """
    return {
        name: BackendStatus(name, True, name == _active, reason)
        for name, reason in _REASONS.items()
    }


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Evaluates the operators with another backend inside a ``with`` block.

    The choice holds for the whole process, not for one thread.

    Args:
        name (str): One of :func:`backends`.

    Raises:
        ValueError: If there is no such backend.
    """
    global _active
    before, _active = _active, _checked(name, "'use_backend'")
    try:
        yield
    finally:
        _active = before
