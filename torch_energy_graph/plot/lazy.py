"""Matplotlib, when a picture is drawn and not before."""

from importlib import import_module
from types import ModuleType

__all__ = ['matplotlib_part']


def matplotlib_part(name: str) -> ModuleType:
    """Return a module of matplotlib.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        return import_module(f'matplotlib.{name}')
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib: pip install 'torch-energy-graph[plot]'"
        ) from error
