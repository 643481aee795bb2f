"""With which weights: layers for PyTorch Geometric."""

from .conv import (
    EnergyAttentionConv,
    EnergyTransformerConv,
    HopfieldNetwork,
)
from .encoding import PeriodicEncoding
from .norm import EnergyLayerNorm

__all__ = [
    'EnergyAttentionConv',
    'EnergyLayerNorm',
    'EnergyTransformerConv',
    'HopfieldNetwork',
    'PeriodicEncoding',
]
