"""Graph layers that descend an energy, for PyTorch Geometric.

Submodules load on first use, so that importing the package (and the
command line's ``--help``) costs nothing.
"""

from importlib import import_module
from types import ModuleType

__version__ = '0.1.0'

_SUBMODULES = (
    'bench',
    'data',
    'datasets',
    'detect',
    'distributed',
    'dynamics',
    'energies',
    'loader',
    'losses',
    'metrics',
    'nn',
    'ood',
    'ops',
    'plot',
    'testing',
    'train',
    'transforms',
    'typing',
)

__all__ = ['__version__', *_SUBMODULES]


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return import_module(f'{__name__}.{name}')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
