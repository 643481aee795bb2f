"""Graphs and sets by name: local files in many forms, embedded digits."""

from torch_energy_graph.datasets.bags import (
    BAG_SETS,
    Bags,
    load_bags,
)
from torch_energy_graph.datasets.dgraph_fin import DGraphFin
from torch_energy_graph.datasets.digits_outlier import DigitsOutlier
from torch_energy_graph.datasets.elliptic_bitcoin import EllipticBitcoinDataset
from torch_energy_graph.datasets.feature_set import FeatureSet
from torch_energy_graph.datasets.fraud_amazon import FraudAmazon
from torch_energy_graph.datasets.fraud_yelp import FraudYelp
from torch_energy_graph.datasets.gadbench import GADBenchDataset
from torch_energy_graph.datasets.images import (
    ImageSet,
    load_images,
)
from torch_energy_graph.datasets.npz_graph import NpzGraph
from torch_energy_graph.datasets.npz_graph_set import NpzGraphSet
from torch_energy_graph.datasets.registry import (
    DatasetInfo,
    available,
    find,
    get,
    info,
    load,
)
from torch_energy_graph.datasets.repertoires import (
    Repertoires,
    read_repertoire,
)
from torch_energy_graph.datasets.roots import data_roots
from torch_energy_graph.datasets.t_finance import TFinance
from torch_energy_graph.datasets.t_social import TSocial
from torch_energy_graph.datasets.temporal import (
    TemporalSignal,
    load_temporal,
)
from torch_energy_graph.datasets.temporal_windows import (
    PeriodScaler,
    TemporalParts,
    scaled_parts,
    sliding_windows,
    time_split,
)
from torch_energy_graph.datasets.toy_bags import (
    bit_pattern_bags,
    image_bags,
    latch_bags,
)

__all__ = [
    'BAG_SETS',
    'Bags',
    'DGraphFin',
    'DatasetInfo',
    'DigitsOutlier',
    'EllipticBitcoinDataset',
    'FeatureSet',
    'FraudAmazon',
    'FraudYelp',
    'GADBenchDataset',
    'ImageSet',
    'NpzGraph',
    'NpzGraphSet',
    'PeriodScaler',
    'Repertoires',
    'TFinance',
    'TSocial',
    'TemporalParts',
    'TemporalSignal',
    'available',
    'bit_pattern_bags',
    'data_roots',
    'find',
    'get',
    'image_bags',
    'info',
    'latch_bags',
    'load',
    'load_bags',
    'load_images',
    'load_temporal',
    'read_repertoire',
    'scaled_parts',
    'sliding_windows',
    'time_split',
]
