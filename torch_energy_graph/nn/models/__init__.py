"""Complete models."""

from .difformer import DIFFormer
from .energy_anomaly_detector import EnergyAnomalyDetector
from .energy_transformer import EnergyTransformer
from .released import from_released_difformer
from .temporal_difformer import TemporalDIFFormer

__all__ = [
    'DIFFormer',
    'EnergyAnomalyDetector',
    'EnergyTransformer',
    'TemporalDIFFormer',
    'from_released_difformer',
]
