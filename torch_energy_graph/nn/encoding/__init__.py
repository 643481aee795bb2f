"""Learned encodings of what comes in."""

from .grid_positions import GridPositions
from .periodic_encoding import PeriodicEncoding
from .random_signs import RandomSigns
from .sequence_embedding import SequenceEmbedding

__all__ = [
    'GridPositions',
    'PeriodicEncoding',
    'RandomSigns',
    'SequenceEmbedding',
]
