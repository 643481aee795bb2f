"""All-pair attention: every node of a graph with every other."""

from .diffusion_attention import DiffusionAttention
from .hflayers import load_hflayers_state_dict
from .hopfield import Hopfield
from .hopfield_memory import HopfieldMemory

__all__ = [
    'DiffusionAttention',
    'Hopfield',
    'HopfieldMemory',
    'load_hflayers_state_dict',
]
