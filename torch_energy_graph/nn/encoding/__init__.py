"""Learned encodings of numerical features."""

from .periodic_encoding import PeriodicEncoding

__all__ = ['PeriodicEncoding']
