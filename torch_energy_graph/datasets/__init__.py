"""Graphs by name: local npz files and the embedded digits."""

from torch_energy_graph.datasets.digits_outlier import DigitsOutlier
from torch_energy_graph.datasets.npz_graph import NpzGraph
from torch_energy_graph.datasets.registry import (
    DatasetInfo,
    available,
    info,
    load,
)
from torch_energy_graph.datasets.roots import data_roots

__all__ = [
    'DatasetInfo',
    'DigitsOutlier',
    'NpzGraph',
    'available',
    'data_roots',
    'info',
    'load',
]
