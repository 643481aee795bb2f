"""The compiled operators: whether they are there, and why not."""

from __future__ import annotations

import logging
from typing import Any

import torch

__all__ = ['build_error', 'cpu_isa', 'operators']


def _load() -> str | None:
    try:
        from torch_energy_graph import _C  # type: ignore[attr-defined] # noqa
    except ImportError as error:
        return str(error)
    return None


build_error = _load()
operators: Any = torch.ops.torch_energy_graph_native
if build_error is not None:
    logging.getLogger('torch_energy_graph').info(
        'no native kernels, the PyTorch backend is used: %s', build_error
    )


def cpu_isa() -> str:
    """Instruction set of the CPU kernels in use: generic, v3 or v4."""
    return operators.cpu_isa()
