"""Does a classifier know this input? Energies, losses and shifts.

Energy low, score high: in-distribution. The losses take any PyTorch
Geometric or image classifier that returns logits.
"""

from .attacks import pgd_attack
from .classifier import SCORES, EnergyClassifier, OutlierDetector
from .confidence import warn_if_underconfident
from .double_backward import check_double_backward
from .gradients import energy_gradient, row_norms
from .jem import JEMLoss
from .losses import NGEBMLoss
from .penalties import EnergyMarginLoss, EnergyVarianceLoss
from .propagation import EnergyPropagation
from .second_order import second_order_paths
from .sgld import SGLDSampler
from .shifts import FeatureShift, LabelShift, StructureShift
from .temperature import fit_temperature

__all__ = [
    'EnergyClassifier',
    'EnergyMarginLoss',
    'EnergyPropagation',
    'EnergyVarianceLoss',
    'FeatureShift',
    'JEMLoss',
    'LabelShift',
    'NGEBMLoss',
    'OutlierDetector',
    'SCORES',
    'SGLDSampler',
    'StructureShift',
    'check_double_backward',
    'energy_gradient',
    'fit_temperature',
    'pgd_attack',
    'row_norms',
    'second_order_paths',
    'warn_if_underconfident',
]
