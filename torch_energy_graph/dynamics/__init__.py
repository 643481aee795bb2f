"""How an energy is minimised: steps, step sizes and traces."""

from .descent import descend
from .step_size import attention_curvature, safe_step_size
from .trace import EnergyTrace

__all__ = [
    'EnergyTrace',
    'attention_curvature',
    'descend',
    'safe_step_size',
]
