"""Graph layers."""

from .difformer_conv import DIFFormerConv
from .edge_modulation import EdgeModulation
from .energy_attention_conv import EnergyAttentionConv
from .energy_transformer_conv import EnergyTransformerConv
from .hopfield_conv import HopfieldConv
from .hopfield_network import HopfieldNetwork

__all__ = [
    'DIFFormerConv',
    'EdgeModulation',
    'EnergyAttentionConv',
    'EnergyTransformerConv',
    'HopfieldConv',
    'HopfieldNetwork',
]
