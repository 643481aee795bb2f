"""Fraud detection as a product: scores, thresholds, calibration, reasons."""

from torch_energy_graph.detect.calibration import (
    IsotonicCalibration,
    SigmoidCalibration,
    TemperatureCalibration,
    fit_calibration,
    probability_quality,
)
from torch_energy_graph.detect.detector import EnergyFraudDetector
from torch_energy_graph.detect.explain import Explanation
from torch_energy_graph.detect.stream import score_batches
from torch_energy_graph.detect.threshold import (
    AlertBudget,
    CostMatrix,
    FBeta,
    MacroF1,
    TopK,
    decision_report,
)

__all__ = [
    'AlertBudget',
    'CostMatrix',
    'EnergyFraudDetector',
    'Explanation',
    'FBeta',
    'IsotonicCalibration',
    'MacroF1',
    'SigmoidCalibration',
    'TemperatureCalibration',
    'TopK',
    'decision_report',
    'fit_calibration',
    'probability_quality',
    'score_batches',
]
