"""The one door to the operators: how fast energies are evaluated."""

from .attention import energy_attention
from .backend import BackendStatus, backends, use_backend
from .graph import GraphCache, coo_edges
from .heap import release_freed_memory
from .softmax import scatter_softmax

__all__ = [
    'BackendStatus',
    'GraphCache',
    'backends',
    'coo_edges',
    'energy_attention',
    'release_freed_memory',
    'scatter_softmax',
    'use_backend',
]
