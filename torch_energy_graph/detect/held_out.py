"""What a detector is worth on nodes that it has not seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from torch_energy_graph.detect.threshold import (
    AlertBudget,
    FBeta,
    MacroF1,
    Target,
    decision_report,
)
from torch_energy_graph.metrics import (
    auprc,
    auroc,
    expected_calibration_error,
    macro_f1,
    recall_at_k,
)

__all__ = ['expected_ece', 'ranking_quality', 'threshold_table']

Floats = NDArray[np.float64]

TARGETS: Mapping[str, Target] = {
    'macro-F1': MacroF1(),
    'F1': FBeta(1.0),
    'F2': FBeta(2.0),
    '1 % alarms': AlertBudget(0.01),
    '2 % alarms': AlertBudget(0.02),
    '5 % alarms': AlertBudget(0.05),
    '10 % alarms': AlertBudget(0.1),
}


def ranking_quality(y: ArrayLike, score: ArrayLike) -> dict[str, Any]:
    """How well scores put anomalies first: AUPRC, AUROC and recall at K.

    Args:
        y (array_like): Labels 0 or 1, [N].
        score (array_like): High for anomalies, [N].

    Returns:
        dict: ``auprc``, ``auroc`` and ``rec_at_k``, K the number of
        anomalies; :obj:`None` where a class is missing.
    """
    return {
        'auprc': auprc(y, score),
        'auroc': auroc(y, score),
        'rec_at_k': recall_at_k(y, score),
    }


def expected_ece(prob: Floats, draws: int = 200, seed: int = 0) -> float:
    """Mean calibration error if every probability were exactly right.

    So many nodes give an error by chance alone; one that is not above it is
    no evidence against the probabilities.

    Args:
        prob (ndarray): Probabilities, [N].
        draws (int, optional): Sets of labels to draw. (default: :obj:`200`)
        seed (int, optional): Of the draws. (default: :obj:`0`)
    """
    gen = np.random.default_rng(seed)
    labels = gen.random((draws, len(prob))) < prob
    errors = [expected_calibration_error(y, prob) for y in labels]
    return float(np.mean(errors))


def threshold_table(
    val: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    chosen: float,
) -> list[dict[str, Any]]:
    """What thresholds from validation nodes do on test nodes.

    Args:
        val (tuple): Labels and probabilities of validation nodes.
        test (tuple): Those of test nodes.
        chosen (float): The threshold of the detector.

    Returns:
        list: By target, :func:`decision_report` and ``macro_f1`` of the test
        nodes; the first row is :obj:`chosen`.
    """
    thresholds = {'chosen': chosen}
    for name, target in TARGETS.items():
        thresholds[name] = target.choose(*val)
    return [
        {
            'target': name,
            **decision_report(*test, threshold),
            'macro_f1': macro_f1(*test, threshold),
        }
        for name, threshold in thresholds.items()
    ]
