"""With which weights: layers for PyTorch Geometric."""

from .aggr import (
    HopfieldAggregation,
    HopfieldPooling,
)
from .attention import (
    DiffusionAttention,
    Hopfield,
    HopfieldMemory,
    load_hflayers_state_dict,
)
from .conv import (
    DIFFormerConv,
    EdgeModulation,
    EnergyAttentionConv,
    EnergyTransformerConv,
    HopfieldConv,
    HopfieldNetwork,
)
from .encoding import (
    PeriodicEncoding,
    RandomSigns,
    SequenceEmbedding,
)
from .norm import EnergyLayerNorm

__all__ = [
    'DIFFormerConv',
    'DiffusionAttention',
    'EdgeModulation',
    'EnergyAttentionConv',
    'EnergyLayerNorm',
    'EnergyTransformerConv',
    'Hopfield',
    'HopfieldAggregation',
    'HopfieldConv',
    'HopfieldMemory',
    'HopfieldNetwork',
    'HopfieldPooling',
    'PeriodicEncoding',
    'RandomSigns',
    'SequenceEmbedding',
    'load_hflayers_state_dict',
]
