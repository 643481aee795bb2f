"""Feature encoders that are fitted on some nodes and used on all."""

from torch_energy_graph.transforms.encoder import FeatureEncoder
from torch_energy_graph.transforms.piecewise_linear import (
    PiecewiseLinearEncoding,
)
from torch_energy_graph.transforms.scaling import (
    QuantileNormalize,
    Standardize,
)
from torch_energy_graph.transforms.to_grid_graph import ToGridGraph

__all__ = [
    'FeatureEncoder',
    'PiecewiseLinearEncoding',
    'QuantileNormalize',
    'Standardize',
    'ToGridGraph',
]
