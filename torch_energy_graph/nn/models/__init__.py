"""Complete models."""

from .difformer import DIFFormer
from .energy_anomaly_detector import EnergyAnomalyDetector
from .energy_transformer import EnergyTransformer
from .hopfield_classifier import HopfieldClassifier
from .image_descent import (
    ImageDescent,
    record_descent,
)
from .image_energy_transformer import ImageEnergyTransformer
from .released import from_released_difformer
from .temporal_difformer import TemporalDIFFormer
from .wide_resnet import WideResNet

__all__ = [
    'DIFFormer',
    'EnergyAnomalyDetector',
    'EnergyTransformer',
    'HopfieldClassifier',
    'ImageDescent',
    'ImageEnergyTransformer',
    'TemporalDIFFormer',
    'WideResNet',
    'from_released_difformer',
    'record_descent',
]
