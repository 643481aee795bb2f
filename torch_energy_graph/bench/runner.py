"""Runs the units of a benchmark: skips finished ones, records failures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_energy_graph.bench.coerce import ConfigError, did_you_mean
from torch_energy_graph.bench.config import BenchConfig
from torch_energy_graph.bench.evaluation import evaluate, failure, try_out
from torch_energy_graph.bench.protocol import get_protocol
from torch_energy_graph.bench.registry import (
    Task,
    UnavailableError,
    load_task,
    model_parameters,
    require_dataset,
    require_goal,
)
from torch_energy_graph.bench.store import Row, RunFolder, Unit
from torch_energy_graph.bench.tuning import Search, candidates

__all__ = ['Summary', 'is_finished', 'plan', 'recheck', 'run']

TUNING_SPLIT = 0


@dataclass(frozen=True)
class Summary:
    """How a run went, in numbers of units.

    ``skipped`` were finished before, ``unavailable`` ones lack a package.
    """

    total: int
    skipped: int
    done: int
    failed: int
    unavailable: int


def plan(config: BenchConfig) -> list[Unit]:
    """Return the units of a benchmark in the order in which they run.

    Raises:
        ConfigError: If a name or a parameter is unknown.
    """
    params = {
        name: model_parameters(name, values, f'models.{name}')
        for name, values in config.models.items()
    }
    searches = _searches(config)
    units: dict[str, Unit] = {}
    for group in config.groups:
        goal = get_protocol(group.protocol).goal
        for model in params:
            require_goal(model, goal, group.protocol)
        for dataset in group.datasets:
            require_dataset(dataset)
            for split in group.splits:
                for model, values in params.items():
                    for seed in group.seeds or config.seeds:
                        unit = Unit(
                            dataset,
                            model,
                            group.protocol,
                            split,
                            seed,
                            values,
                            searches.get(model),
                        )
                        units[unit.key] = unit
    return list(units.values())


def _searches(config: BenchConfig) -> dict[str, Search]:
    tuning = config.tuning
    if tuning is None:
        return {}
    during = tuning.during or {}
    for place, named, known in (
        ('grids', tuning.grids, config.models),
        ('during', during, tuning.grids),
    ):
        for model in named:
            if model not in known:
                raise ConfigError(
                    f"tuning.{place}: '{model}' is none of the models that "
                    f'are {"run" if place == "grids" else "tuned"}; '
                    f'{did_you_mean(model, known)}'
                )
    return {
        model: Search(
            _typed(model, grid),
            tuning.budget,
            tuning.seed,
            _given(model, during.get(model, {}), 'tuning.during'),
        )
        for model, grid in tuning.grids.items()
    }


def _given(
    model: str, values: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return the values alone, in the types that the model declares."""
    typed = model_parameters(model, values, f'{where}.{model}')
    return {key: typed[key] for key in values}


def _typed(
    model: str, grid: Mapping[str, tuple[Any, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Return the values of a grid in the types that the model declares."""
    return {
        key: tuple(
            _given(model, {key: value}, 'tuning.grids')[key]
            for value in values
        )
        for key, values in grid.items()
    }


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
        search = unit.search
        if search is not None:
            search = replace(
                search,
                grid=_typed(unit.model, search.grid),
                during=_given(unit.model, search.during, 'tuning.during'),
            )
        goal = get_protocol(unit.protocol).goal
        require_goal(unit.model, goal, unit.protocol)
        require_dataset(unit.dataset)
        checked.append(replace(unit, params=now, search=search))
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
    counts = {'ok': 0, 'failed': 0, 'skipped': 0}
    todo = [unit for unit in units if not is_finished(folder, unit)]
    name, task = '', None
    for unit in todo:
        if unit.dataset != name:
            name, task = unit.dataset, None
        try:
            task = load_task(name) if task is None else task
            row = _run(folder, unit, task)
        except Exception as error:
            row = failure(unit, error)
        counts[row['status']] += 1
        folder.write(unit, row)
        if on_row is not None:
            on_row(unit, row)
    return Summary(
        len(units),
        len(units) - len(todo),
        counts['ok'],
        counts['failed'],
        counts['skipped'],
    )


def is_finished(folder: RunFolder, unit: Unit) -> bool:
    """Tell whether a unit has a result."""
    row = folder.read(unit)
    return row is not None and row['status'] == 'ok'


def _run(folder: RunFolder, unit: Unit, task: Task) -> Row:
    """Choose the parameters if they are to be tuned, then evaluate."""
    split = get_protocol(unit.protocol).split(task, unit.split)
    folder.keep_masks(unit, split.packed())
    if unit.search is None:
        return {**evaluate(unit, task, split), 'params': unit.params}
    params, record = _tuned(folder, unit, unit.search, task)
    row = evaluate(replace(unit, params=params), task, split)
    named = {**row['unit'], 'params': unit.params, 'config': unit.config}
    return {**row, 'unit': named, 'params': params, 'tuning': record}


def _tuned(
    folder: RunFolder, unit: Unit, search: Search, task: Task
) -> tuple[dict[str, Any], Row]:
    """Return the best setting on validation nodes of split 0.

    Every try is one file of the run folder; those that are there already,
    also from other splits and seeds of this model, are not repeated.
    """
    protocol = get_protocol(unit.protocol)
    split, metric = protocol.split(task, TUNING_SPLIT), protocol.goal.metric
    tries = []
    for params in candidates(unit.params, search):
        attempt = replace(
            unit,
            split=TUNING_SPLIT,
            seed=0,
            params={**params, **search.during},
            search=None,
        )
        row = folder.read_try(attempt)
        if row is None:
            try:
                row = try_out(attempt, task, split)
            except UnavailableError:
                raise
            except Exception as error:
                row = failure(attempt, error)
            folder.write_try(attempt, row)
        tries.append((params, row))
    good = [(p, row) for p, row in tries if row['status'] == 'ok']
    if not good:
        raise RuntimeError(
            f'all {len(tries)} settings of the tuning failed, the first with: '
            f'{tries[0][1]["error"]}'
        )
    params, row = max(good, key=lambda pair: pair[1]['val'][metric])
    return params, {
        'tries': len(tries),
        'failed': len(tries) - len(good),
        f'val_{metric}': row['val'][metric],
        'seconds': round(sum(row['seconds'] for _, row in good), 3),
    }
