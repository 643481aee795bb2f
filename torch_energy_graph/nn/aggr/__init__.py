"""Pooling: from the elements of every set to one output per set."""

from .hopfield_aggregation import HopfieldAggregation, HopfieldPooling

__all__ = ['HopfieldAggregation', 'HopfieldPooling']
