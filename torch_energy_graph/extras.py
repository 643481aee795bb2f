"""Modules that an extra of the package brings, loaded when needed."""

from importlib import import_module
from typing import Any

__all__ = ['require']


def require(module: str, extra: str, purpose: str) -> Any:
    """Return a module.

    Args:
        module (str): Such as 'matplotlib.figure'.
        extra (str): The extra of this package that brings it.
        purpose (str): What needs it, a plural, for the message.

    Raises:
        ImportError: If it cannot be imported, with the command to mend it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition('.')[0]
        raise ImportError(
            f'{purpose} need {package} ({error}); pip install '
            f"'torch-energy-graph[{extra}]'"
        ) from error
