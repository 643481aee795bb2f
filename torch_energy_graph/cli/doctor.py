"""``teg doctor``: what is installed, what is active, and why not."""

import os
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from torch_energy_graph import __version__
from torch_energy_graph.cli.output import Json, print_json

__all__ = ['doctor']

REQUIRED = ('torch', 'torch_geometric', 'numpy', 'scipy', 'sklearn')
OPTIONAL = (
    'torch_scatter',
    'torch_sparse',
    'pyg_lib',
    'matplotlib',
    'pandas',
)


def doctor(json: Json = False) -> None:
    """Show versions, active backends, data folders and threads."""
    required = {name: _version(name) for name in REQUIRED}
    found = {
        'torch_energy_graph': __version__,
        'python': f'{platform.python_version()} on {platform.platform()}',
        'required': required,
        'optional': {name: _version(name) for name in OPTIONAL},
        'backends': _guarded(_backends),
        'data_roots': _guarded(_data_roots),
        'cpu': _guarded(_cpu),
    }
    healthy = all(version['ok'] for version in required.values())
    if json:
        print_json({**found, 'ok': healthy})
    else:
        _print(found)
    if not healthy:
        raise typer.Exit(1)


def _version(name: str) -> dict[str, Any]:
    """Import a package by itself: a broken one must not hide the others."""
    try:
        version = getattr(import_module(name), '__version__', 'unknown')
    except ModuleNotFoundError as error:
        missing = error.name == name
        reason = 'not installed' if missing else f'broken: {error}'
        return {'ok': False, 'version': None, 'reason': reason}
    except Exception as error:
        return {'ok': False, 'version': None, 'reason': f'broken: {error}'}
    return {'ok': True, 'version': str(version), 'reason': ''}


def _guarded(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        return {'error': f'{type(error).__name__}: {error}'}


def _backends() -> dict[str, dict[str, Any]]:
    from torch_energy_graph.ops import backends

    return {
        name: {
            'available': status.available,
            'active': status.active,
            'reason': status.reason,
        }
        for name, status in backends().items()
    }


def _data_roots() -> dict[str, str]:
    from torch_energy_graph.datasets import data_roots

    def describe(root: Path) -> str:
        if not root.is_dir():
            return 'no such folder'
        return f'{len(list(root.glob("*.npz")))} npz files'

    return {str(root): describe(root) for root in data_roots()}


def _cpu() -> dict[str, int | None]:
    import torch

    return {
        'cores': os.cpu_count(),
        'torch_threads': torch.get_num_threads(),
        'cuda_devices': torch.cuda.device_count(),
    }


def _print(found: dict[str, Any]) -> None:
    typer.echo(f'{"torch_energy_graph":20}{found["torch_energy_graph"]}')
    typer.echo(f'{"python":20}{found["python"]}')
    for version in ('required', 'optional'):
        for name, state in found[version].items():
            typer.echo(f'{name:20}{state["version"] or state["reason"]}')
    for title in ('backends', 'data_roots', 'cpu'):
        typer.echo(f'\n{title.replace("_", " ")}')
        for name, state in found[title].items():
            if title == 'backends' and isinstance(state, dict):
                word = 'active' if state['active'] else 'inactive'
                word = word if state['available'] else 'unavailable'
                state = f'{word}: {state["reason"]}'
            typer.echo(f'  {name:17} {state}')
