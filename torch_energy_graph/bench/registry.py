"""Models and datasets of the benchmark, by name."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph import datasets
from torch_energy_graph.bench.coerce import (
    ConfigError,
    Field,
    coerce_fields,
    did_you_mean,
)
from torch_energy_graph.bench.goal import ANOMALIES, Goal

__all__ = [
    'FitPredict',
    'Prediction',
    'Task',
    'UnavailableError',
    'get_model',
    'load_task',
    'model_parameters',
    'register_dataset',
    'register_model',
    'require_dataset',
    'require_goal',
    'with_defaults',
]

Masks: TypeAlias = tuple[Tensor, Tensor, Tensor]
F = TypeVar('F', bound=Callable[..., Any])


@dataclass(frozen=True)
class Prediction:
    """What a model returns.

    Args:
        scores (ndarray): Probability of being anomalous, :math:`[N]`, or of
            each class, :math:`[N, C]`.
        info (dict, optional): What to record beside the metrics;
            ``best_epoch``, ``num_parameters``, ``energy_start`` and
            ``energy_end`` have columns of their own in the report.
        predict (callable, optional): Scores of the nodes of another graph,
            which inductive protocols need. (default: :obj:`None`)
    """

    scores: NDArray[np.float64]
    info: dict[str, Any] = field(default_factory=dict)
    predict: Callable[[Data], NDArray[np.float64]] | None = None


class UnavailableError(RuntimeError):
    """A model cannot run on this machine; its units are skipped."""


@dataclass(frozen=True)
class Task:
    """A graph with labels (-1: unlabelled) and its stored splits.

    Args:
        data (Data): The graph.
        splits (Mapping, optional): By family, train, validation and test
            masks :math:`[N, S]`.
    """

    data: Data
    splits: Mapping[str, Masks] = field(default_factory=dict)


FitPredict: TypeAlias = Callable[..., Prediction]
_MODELS: dict[str, FitPredict] = {}
_GOALS: dict[str, Goal] = {}
_DATASETS: dict[str, Callable[[], Data | Task]] = {}


def register_model(name: str, goal: Goal = ANOMALIES) -> Callable[[F], F]:
    """Decorate ``fit_predict(data, split, seed, **params) -> Prediction``.

    The parameters are keyword-only, annotated and have defaults; files are
    checked against them. In ``data.y`` every node outside of training and
    validation is -1.

    Args:
        name (str): Name of the model.
        goal (Goal, optional): What the scores tell; with ``CLASSES`` they
            are :math:`[N, C]` for ``split.classes`` classes.
            (default: ``ANOMALIES``)
    """

    def decorate(function: F) -> F:
        _MODELS[name] = function
        _GOALS[name] = goal
        return function

    return decorate


def register_dataset(name: str) -> Callable[[F], F]:
    """Decorate a function that returns a ``Data`` or a :class:`Task`."""

    def decorate(function: F) -> F:
        _DATASETS[name] = function
        return function

    return decorate


def get_model(name: str) -> FitPredict:
    """Return a registered model."""
    if name not in _MODELS:
        raise ConfigError(
            f"unknown model '{name}'; {did_you_mean(name, _MODELS)}"
        )
    return _MODELS[name]


def require_goal(name: str, goal: Goal, protocol: str) -> None:
    """Raise ConfigError if a model does not tell what a protocol measures."""
    get_model(name)
    if _GOALS[name] is not goal:
        others = [model for model in _MODELS if _GOALS[model] is goal]
        raise ConfigError(
            f"protocol '{protocol}' needs a model that tells {goal.name} (got "
            f"'{name}', which tells {_GOALS[name].name}); such models: "
            f'{", ".join(sorted(others)) or "none"}'
        )


def model_parameters(
    name: str, values: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Check parameters against the model's signature and add defaults."""
    signature = inspect.signature(get_model(name), eval_str=True)
    fields = {
        key: Field(
            Any if p.annotation is p.empty else p.annotation,
            MISSING if p.default is p.empty else p.default,
        )
        for key, p in signature.parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    return coerce_fields(values, fields, where)


def with_defaults(model: FitPredict, **defaults: Any) -> FitPredict:
    """Return the model with other defaults of some parameters."""

    @functools.wraps(model)
    def fit_predict(
        data: Data, split: Any, seed: int, **params: Any
    ) -> Prediction:
        return model(data, split, seed, **{**defaults, **params})

    signature = inspect.signature(model, eval_str=True)
    changed = [
        p.replace(default=defaults.get(key, p.default))
        for key, p in signature.parameters.items()
    ]
    fit_predict.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=changed
    )
    return fit_predict


def require_dataset(name: str) -> None:
    """Raise ConfigError if no dataset with this name is at hand."""
    if name in _DATASETS:
        return
    try:
        datasets.find(name)
    except (FileNotFoundError, ValueError) as error:
        cards = datasets.available()
        hint = did_you_mean(name, {*_DATASETS, *(c.name for c in cards)})
        raise ConfigError(f'{error}; {hint}') from None


def load_task(name: str) -> Task:
    """Load a dataset by name; registered ones come first."""
    if name in _DATASETS:
        loaded = _DATASETS[name]()
        return loaded if isinstance(loaded, Task) else Task(loaded)
    dataset = datasets.get(name)
    return Task(dataset[0], dataset.splits)
