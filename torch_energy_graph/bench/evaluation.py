"""Fits one unit and measures it; models never see a test label."""

import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from torch_geometric.data import Data

from torch_energy_graph.bench.goal import Scores
from torch_energy_graph.bench.measure import (
    environment,
    memory_mib,
    reset_peak_memory,
)
from torch_energy_graph.bench.protocol import get_protocol
from torch_energy_graph.bench.registry import (
    Prediction,
    Task,
    UnavailableError,
    get_model,
)
from torch_energy_graph.bench.split import Split
from torch_energy_graph.bench.store import Row, Unit

__all__ = ['evaluate', 'failure', 'try_out', 'visible']

VISIBLE = ('x', 'edge_index', 'edge_attr', 'edge_weight', 'edge_type')
COLUMNS = ('best_epoch', 'num_parameters', 'energy_start', 'energy_end')


def evaluate(unit: Unit, task: Task, split: Split | None = None) -> Row:
    """Fit and measure one unit; test labels are used only at the end.

    Args:
        unit (Unit): What to run; its parameters are taken as they are.
        task (Task): Graph and stored splits.
        split (Split, optional): Drawn by the unit's protocol if
            :obj:`None`. (default: :obj:`None`)
    """
    if split is None:
        split = get_protocol(unit.protocol).split(task, unit.split)
    fitted = _fit(unit, task, split, _all_scores)
    y = task.data.y.cpu().numpy()
    goal = get_protocol(unit.protocol).goal
    return {
        **_head(unit, 'ok'),
        'split': split.describe(task.data.y),
        **goal.measure(y, fitted.scores, split.val, split.test),
        **fitted.record(),
    }


def try_out(unit: Unit, task: Task, split: Split) -> Row:
    """Fit one setting and measure it on validation nodes only."""
    fitted = _fit(unit, task, split, _seen_scores)
    y = task.data.y.cpu().numpy()
    goal = get_protocol(unit.protocol).goal
    return {
        **_head(unit, 'ok'),
        'split': split.describe(task.data.y),
        'val': goal.validate(y, fitted.scores, split.val),
        **fitted.record(),
    }


def failure(unit: Unit, error: Exception) -> Row:
    """Return the row of a unit that has no result, and why."""
    reason: Any = ' '.join(str(error).split()) or 'no message'
    if isinstance(error, UnavailableError):
        return {**_head(unit, 'skipped'), 'error': reason}
    return {
        **_head(unit, 'failed'),
        'error': f'{type(error).__name__}: {reason}',
        'traceback': traceback.format_exc(),
    }


@dataclass(frozen=True)
class _Fitted:
    scores: Scores
    info: dict[str, Any]
    seconds: float
    memory: tuple[float | None, float | None]
    device: str

    def record(self) -> Row:
        return {
            **{key: self.info.get(key) for key in COLUMNS},
            'seconds': round(self.seconds, 3),
            'memory_start_mib': self.memory[0],
            'memory_peak_mib': self.memory[1],
            'device': self.device,
            'info': {k: v for k, v in self.info.items() if k not in COLUMNS},
        }


def _fit(
    unit: Unit,
    task: Task,
    split: Split,
    scores_of: Callable[[Unit, Prediction, Data, Split], Scores],
) -> _Fitted:
    """Fit on what a model may see, with time and memory."""
    fit_predict = get_model(unit.model)
    graph = visible(task.data, split)
    seen, local = graph, split
    if split.inductive:
        nodes = ~split.test
        seen, local = graph.subgraph(nodes), split.among(nodes)
    resettable = reset_peak_memory()
    memory_start = memory_mib('VmRSS')
    start = time.perf_counter()
    prediction = fit_predict(seen, local, unit.seed, **unit.params)
    _check_scores(prediction.scores, unit, seen)
    scores = scores_of(unit, prediction, graph, split)
    seconds = time.perf_counter() - start
    peak = memory_mib('VmHWM') if resettable else None
    return _Fitted(
        scores,
        prediction.info,
        seconds,
        (memory_start, peak),
        str(graph.x.device),
    )


def visible(data: Data, split: Split) -> Data:
    """Copy the graph; labels outside of training and validation are -1."""
    shown = {key: data[key].clone() for key in VISIBLE if key in data}
    y = data.y.masked_fill(~(split.train | split.val), -1)
    return Data(y=y, num_nodes=data.num_nodes, **shown)


def _seen_scores(
    unit: Unit, prediction: Prediction, graph: Data, split: Split
) -> Scores:
    """Scores of the nodes that the model has seen; 0 elsewhere."""
    scores = np.asarray(prediction.scores, dtype=np.float64)
    if split.inductive:
        full = np.zeros((split.test.numel(), *scores.shape[1:]))
        full[~split.test.numpy()] = scores
        return full
    return scores


def _all_scores(
    unit: Unit, prediction: Prediction, graph: Data, split: Split
) -> Scores:
    """Scores of all nodes; unseen ones are scored in the full graph."""
    scores = _seen_scores(unit, prediction, graph, split)
    if split.inductive:
        if prediction.predict is None:
            raise ValueError(
                f"'{unit.model}' cannot score nodes that it was not fitted "
                f"with: its Prediction has no 'predict'; use another protocol"
            )
        # what the model sees of the new nodes has no labels
        bare = Data(**{k: v for k, v in graph.to_dict().items() if k != 'y'})
        later = prediction.predict(bare)
        _check_scores(later, unit, graph)
        test = split.test.numpy()
        scores[test] = np.asarray(later)[test]
    return scores


def _check_scores(scores: Any, unit: Unit, graph: Data) -> None:
    scores = np.asarray(scores, dtype=np.float64)
    goal = get_protocol(unit.protocol).goal
    goal.check(scores, unit.model, graph.num_nodes)


def _head(unit: Unit, status: str) -> Row:
    now = datetime.now(timezone.utc)
    return {
        'schema': 1,
        'status': status,
        'finished': now.isoformat(timespec='seconds'),
        'unit': {**asdict(unit), 'config': unit.config},
        **environment(),
    }
