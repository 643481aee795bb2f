"""The one door to the operators: how fast energies are evaluated."""

from .attention import energy_attention
from .backend import BackendStatus, backends, use_backend
from .gram import gram_attention
from .graph import GraphCache, coo_edges
from .heap import release_freed_memory
from .linear_attention import linear_attention, linear_attention_weights
from .ragged import batch_of
from .sigmoid import (
    sigmoid_attention,
    sigmoid_attention_weights,
)
from .softmax import scatter_softmax
from .sparse import spmm
from .unit import unit_attention

__all__ = [
    'BackendStatus',
    'GraphCache',
    'backends',
    'batch_of',
    'coo_edges',
    'energy_attention',
    'gram_attention',
    'linear_attention',
    'linear_attention_weights',
    'release_freed_memory',
    'scatter_softmax',
    'sigmoid_attention',
    'sigmoid_attention_weights',
    'spmm',
    'unit_attention',
    'use_backend',
]
