"""Scores of held-out nodes, beside trees on the same columns."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from torch_geometric.data import Data

from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.fraud.run import FraudRun
from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.split import Split
from torch_energy_graph.bench.tabular import histgb
from torch_energy_graph.detect import decision_report, probability_quality
from torch_energy_graph.detect.descent import energy_descent
from torch_energy_graph.detect.graphs import split_masks
from torch_energy_graph.detect.held_out import (
    expected_ece,
    ranking_quality,
    threshold_table,
)

__all__ = ['Evaluation', 'evaluate_run']

Floats = NDArray[np.float64]

# by name, the neighbour means that gradient-boosted trees see
BASELINES = {'trees on columns': 0, 'trees on columns and neighbours': 2}
_LEAST_STEPS = 8  # of the energy's picture


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a detector does on nodes that were held out.

    Attributes:
        record: All numbers, ready for JSON.
        y: Labels of the nodes, [M].
        prob: Calibrated probabilities, [M].
        raw: Probabilities before calibration, [M].
        baselines: By name, scores of other models, [M] each.
        descent: Mean energies of normal and anomalous ones, [T + 1, 2].
    """

    record: dict[str, Any]
    y: NDArray[np.int64]
    prob: Floats
    raw: Floats
    baselines: dict[str, Floats]
    descent: Floats


def evaluate_run(run: FraudRun) -> Evaluation:
    """Measure a detector, and trees that were fitted on the same nodes.

    Thresholds come from validation nodes.

    Raises:
        ConfigError: If no node was held out.
    """
    if not bool(run.test.any()):
        raise ConfigError(
            'no node was held out; train with a share to test on, such as '
            '--test 0.2'
        )
    detector, test = run.detector, run.test
    preprocessing = detector.preprocessing_
    assert preprocessing is not None  # it was fitted on tables
    with warnings.catch_warnings():
        # of rare categories and gaps among the nodes that were held out
        warnings.simplefilter('ignore')
        data = preprocessing.transform(run.table)
    split = _split(run)
    labels = run.table.y.numpy()
    prob = detector.predict_proba(data)[:, 1]
    raw = expit(detector.decision_function(data))
    baselines = _baselines(data, split, detector.random_state)
    val = split.val.numpy()
    held = test.numpy()
    y, p = labels[held], prob[held]
    tested = decision_report(y, p, detector.threshold_)
    steps = max(_LEAST_STEPS, detector.num_steps)
    kinds = run.table.y.masked_fill(~test, -1)
    scorer = detector.scorer_
    descent = energy_descent(scorer, scorer.prepare(data), kinds, steps)
    record = {
        'tables': run.config.tables,
        'parts': split.describe(run.table.y),
        'test': {**ranking_quality(y, p), **probability_quality(y, p)},
        'uncalibrated': probability_quality(y, raw[held]),
        'ece_by_chance': expected_ece(p),
        'baselines': {
            name: ranking_quality(y, scores[held])
            for name, scores in baselines.items()
        },
        'decisions': {
            **tested,
            'passed': int((y == 0).sum()) - tested['false_alarms'],
        },
        'thresholds': threshold_table(
            (labels[val], prob[val]), (y, p), detector.threshold_
        ),
        'num_steps': detector.num_steps,
        'energy': descent.tolist(),
        **environment(),
    }
    others = {name: scores[held] for name, scores in baselines.items()}
    return Evaluation(record, y, p, raw[held], others, descent)


def _split(run: FraudRun) -> Split:
    """The nodes that the detector was fitted, stopped and tested on."""
    detector, table = run.detector, run.table
    train, val = split_masks(
        table,
        (table.y >= 0) & ~run.test,
        None,
        detector.val_size,
        detector.random_state,
    )
    return Split(train, val, run.test, detector.random_state)


def _baselines(data: Data, split: Split, seed: int) -> dict[str, Floats]:
    visible = data.clone()
    visible.y = data.y.masked_fill(~split.train, -1)
    return {
        name: histgb(visible, split, seed, hops=hops).scores
        for name, hops in BASELINES.items()
    }
