"""Learned encodings of what comes in."""

from .periodic_encoding import PeriodicEncoding
from .random_signs import RandomSigns
from .sequence_embedding import SequenceEmbedding

__all__ = [
    'PeriodicEncoding',
    'RandomSigns',
    'SequenceEmbedding',
]
