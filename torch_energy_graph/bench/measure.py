"""What is recorded beside the metrics: memory, versions, device."""

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy
import sklearn
import torch

import torch_geometric

import torch_energy_graph

__all__ = ['environment', 'memory_mib', 'reset_peak_memory']

PROC = Path('/proc/self')


def reset_peak_memory() -> bool:
    """Restart the peak of resident memory; only Linux can."""
    try:
        (PROC / 'clear_refs').write_text('5')
    except OSError:
        return False
    return True


def memory_mib(key: str) -> float | None:
    """Return ``VmRSS`` (now) or ``VmHWM`` (peak) in MiB, where known."""
    try:
        lines = (PROC / 'status').read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f'{key}:'):
            return round(int(line.split()[1]) / 1024, 1)
    return None


@lru_cache
def environment() -> dict[str, Any]:
    """Return versions, git commit, machine and determinism settings."""
    return {
        'versions': {
            'torch_energy_graph': torch_energy_graph.__version__,
            'torch': torch.__version__,
            'torch_geometric': torch_geometric.__version__,
            'sklearn': sklearn.__version__,
            'numpy': numpy.__version__,
            'python': platform.python_version(),
        },
        'git': _git_commit(),
        'machine': f'{platform.system()} {platform.machine()}',
        'cpus': os.cpu_count(),
        'threads': torch.get_num_threads(),
        'deterministic': torch.are_deterministic_algorithms_enabled(),
    }


def _git_commit() -> str | None:
    """Return the commit of the package, if it runs from a checkout."""
    package = Path(torch_energy_graph.__file__).resolve().parent
    if not (package.parent / '.git').exists():
        return None
    command = ['git', 'describe', '--always', '--dirty', '--abbrev=40']
    try:
        done = subprocess.run(
            [*command, '--exclude=*'],
            cwd=package,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
