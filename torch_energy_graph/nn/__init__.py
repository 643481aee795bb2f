"""With which weights: layers for PyTorch Geometric."""

from .attention import DiffusionAttention
from .conv import (
    DIFFormerConv,
    EnergyAttentionConv,
    EnergyTransformerConv,
    HopfieldNetwork,
)
from .encoding import PeriodicEncoding
from .norm import EnergyLayerNorm

__all__ = [
    'DIFFormerConv',
    'DiffusionAttention',
    'EnergyAttentionConv',
    'EnergyLayerNorm',
    'EnergyTransformerConv',
    'HopfieldNetwork',
    'PeriodicEncoding',
]
