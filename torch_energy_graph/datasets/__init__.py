"""Graphs by name: local files in many forms, and the embedded digits."""

from torch_energy_graph.datasets.dgraph_fin import DGraphFin
from torch_energy_graph.datasets.digits_outlier import DigitsOutlier
from torch_energy_graph.datasets.elliptic_bitcoin import (
    EllipticBitcoinDataset,
)
from torch_energy_graph.datasets.fraud_amazon import FraudAmazon
from torch_energy_graph.datasets.fraud_yelp import FraudYelp
from torch_energy_graph.datasets.gadbench import GADBenchDataset
from torch_energy_graph.datasets.npz_graph import NpzGraph
from torch_energy_graph.datasets.registry import (
    DatasetInfo,
    available,
    find,
    get,
    info,
    load,
)
from torch_energy_graph.datasets.roots import data_roots
from torch_energy_graph.datasets.t_finance import TFinance
from torch_energy_graph.datasets.t_social import TSocial

__all__ = [
    'DGraphFin',
    'DatasetInfo',
    'DigitsOutlier',
    'EllipticBitcoinDataset',
    'FraudAmazon',
    'FraudYelp',
    'GADBenchDataset',
    'NpzGraph',
    'TFinance',
    'TSocial',
    'available',
    'data_roots',
    'find',
    'get',
    'info',
    'load',
]
