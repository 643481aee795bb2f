"""Learned encodings of numerical features."""

from .periodic_encoding import PeriodicEncoding
from .random_signs import RandomSigns

__all__ = [
    'PeriodicEncoding',
    'RandomSigns',
]
