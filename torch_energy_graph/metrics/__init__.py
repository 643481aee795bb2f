"""Measures of answers: numpy in, floats out.

Rare anomalies (:mod:`.anomaly`), probabilities of classes
(:mod:`.calibration`) and inputs that are none of the training distribution
(:mod:`.ood`).
"""

from .anomaly import (
    auprc,
    auroc,
    best_macro_f1_threshold,
    expected_calibration_error,
    macro_f1,
    recall_at_k,
)
from .calibration import (
    brier_score,
    confidence_gap,
    negative_log_likelihood,
    top_label_calibration_error,
)
from .ood import OODMetrics, fpr_at_tpr, ood_metrics
from .reliability import ReliabilityCurve, reliability_curve

__all__ = [
    'OODMetrics',
    'ReliabilityCurve',
    'auprc',
    'auroc',
    'best_macro_f1_threshold',
    'brier_score',
    'confidence_gap',
    'expected_calibration_error',
    'fpr_at_tpr',
    'macro_f1',
    'negative_log_likelihood',
    'ood_metrics',
    'recall_at_k',
    'reliability_curve',
    'top_label_calibration_error',
]
