"""Runs the units of a benchmark: skips finished ones, records failures."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph import metrics
from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.config import BenchConfig
from torch_energy_graph.bench.measure import (
    environment,
    memory_mib,
    reset_peak_memory,
)
from torch_energy_graph.bench.protocol import Split, get_protocol
from torch_energy_graph.bench.registry import (
    Prediction,
    Task,
    get_model,
    load_task,
    model_parameters,
    require_dataset,
)
from torch_energy_graph.bench.store import Row, RunFolder, Unit

__all__ = ['Summary', 'evaluate', 'is_finished', 'plan', 'recheck', 'run']

VISIBLE = ('x', 'edge_index', 'edge_attr', 'edge_weight', 'edge_type')
COLUMNS = ('best_epoch', 'num_parameters', 'energy_start', 'energy_end')


@dataclass(frozen=True)
class Summary:
    """How a run went, in numbers of units."""

    total: int
    skipped: int
    done: int
    failed: int


def plan(config: BenchConfig) -> list[Unit]:
    """Return the units of a benchmark in the order in which they run.

    Raises:
        ConfigError: If a name or a parameter is unknown.
    """
    params = {
        name: model_parameters(name, values, f'models.{name}')
        for name, values in config.models.items()
    }
    units: dict[str, Unit] = {}
    for group in config.groups:
        get_protocol(group.protocol)
        for dataset in group.datasets:
            require_dataset(dataset)
            for split in group.splits:
                for model, values in params.items():
                    for seed in config.seeds:
                        unit = Unit(
                            dataset, model, group.protocol, split, seed, values
                        )
                        units[unit.key] = unit
    return list(units.values())


def recheck(units: Sequence[Unit]) -> list[Unit]:
    """Check stored units against the models and datasets of today."""
    checked = []
    for unit in units:
        now = model_parameters(unit.model, unit.params, f'models.{unit.model}')
        if set(now) != set(unit.params):
            new = ', '.join(sorted(set(now) - set(unit.params)))
            raise ConfigError(
                f"'{unit.model}' has new parameters since this run was "
                f"planned ({new}); start it again with 'teg bench run'"
            )
        get_protocol(unit.protocol)
        require_dataset(unit.dataset)
        checked.append(replace(unit, params=now))
    return checked


def run(
    folder: RunFolder,
    units: Sequence[Unit],
    on_row: Callable[[Unit, Row], None] | None = None,
) -> Summary:
    """Run what is not finished; failed units are tried again.

    Args:
        folder (RunFolder): Where the rows are stored; locked by the caller.
        units (sequence of Unit): What to run.
        on_row (callable, optional): Called with every new row.
            (default: :obj:`None`)
    """
    done = failed = 0
    todo = [unit for unit in units if not is_finished(folder, unit)]
    name, task = '', None
    for unit in todo:
        if unit.dataset != name:
            name, task = unit.dataset, None
        try:
            task = load_task(name) if task is None else task
            row = evaluate(unit, task)
            done += 1
        except Exception as error:
            row = _failure(unit, error)
            failed += 1
        folder.write(unit, row)
        if on_row is not None:
            on_row(unit, row)
    return Summary(len(units), len(units) - len(todo), done, failed)


def is_finished(folder: RunFolder, unit: Unit) -> bool:
    """Tell whether a unit has a result."""
    row = folder.read(unit)
    return row is not None and row['status'] == 'ok'


def evaluate(unit: Unit, task: Task) -> Row:
    """Fit one unit and measure it; test labels are used only at the end."""
    split = get_protocol(unit.protocol).split(task, unit.split)
    fit_predict = get_model(unit.model)
    visible = _visible(task.data, split)
    resettable = reset_peak_memory()
    memory_start = memory_mib('VmRSS')
    start = time.perf_counter()
    prediction = fit_predict(visible, split, unit.seed, **unit.params)
    seconds = time.perf_counter() - start
    peak = memory_mib('VmHWM') if resettable else None
    scores = _checked_scores(prediction, unit, task)
    y = task.data.y.cpu().numpy()
    threshold, _ = metrics.best_macro_f1_threshold(
        y[split.val.numpy()], scores[split.val.numpy()]
    )
    return {
        **_head(unit, 'ok'),
        'split': split.describe(task.data.y),
        'val': _measure(y, scores, split.val, threshold),
        'test': _measure(y, scores, split.test, threshold),
        'threshold': threshold,
        **{key: prediction.info.get(key) for key in COLUMNS},
        'seconds': round(seconds, 3),
        'memory_start_mib': memory_start,
        'memory_peak_mib': peak,
        'device': str(task.data.x.device),
        'info': {k: v for k, v in prediction.info.items() if k not in COLUMNS},
    }


def _visible(data: Data, split: Split) -> Data:
    """Copy the graph; labels outside of training and validation are -1."""
    shown = {key: data[key].clone() for key in VISIBLE if key in data}
    y = data.y.masked_fill(~(split.train | split.val), -1)
    return Data(y=y, num_nodes=data.num_nodes, **shown)


def _checked_scores(
    prediction: Prediction, unit: Unit, task: Task
) -> NDArray[np.float64]:
    scores = np.asarray(prediction.scores, dtype=np.float64)
    if scores.shape != (task.data.num_nodes,):
        raise ValueError(
            f"'{unit.model}' must return scores of shape "
            f'[{task.data.num_nodes}] (got {list(scores.shape)})'
        )
    bad = int((~np.isfinite(scores)).sum())
    if bad:
        raise ValueError(
            f"'{unit.model}' must return finite scores (got {bad} NaN or Inf)"
        )
    if scores.min() < 0 or scores.max() > 1:
        raise ValueError(
            f"'{unit.model}' must return probabilities in [0, 1] (got "
            f'{scores.min():.4g} to {scores.max():.4g}); apply a sigmoid?'
        )
    return scores


def _measure(
    y: NDArray[np.int64],
    scores: NDArray[np.float64],
    mask: Tensor,
    threshold: float,
) -> Mapping[str, float | None]:
    y, scores = y[mask.numpy()], scores[mask.numpy()]
    return {
        'auroc': metrics.auroc(y, scores),
        'auprc': metrics.auprc(y, scores),
        'recall_at_k': metrics.recall_at_k(y, scores),
        'macro_f1': metrics.macro_f1(y, scores, threshold),
        'ece': metrics.expected_calibration_error(y, scores),
    }


def _head(unit: Unit, status: str) -> Row:
    now = datetime.now(timezone.utc)
    return {
        'schema': 1,
        'status': status,
        'finished': now.isoformat(timespec='seconds'),
        'unit': {**asdict(unit), 'config': unit.config},
        **environment(),
    }


def _failure(unit: Unit, error: Exception) -> Row:
    reason: Any = ' '.join(str(error).split()) or 'no message'
    return {
        **_head(unit, 'failed'),
        'error': f'{type(error).__name__}: {reason}',
        'traceback': traceback.format_exc(),
    }
