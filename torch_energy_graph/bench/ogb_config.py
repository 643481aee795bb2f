"""The configuration of a leaderboard entry: a YAML file or a dataset's name.

A name stands for the dataset's recipe below; a file stands alone, and what it
leaves out has the default of the code.
"""

import copy
import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_energy_graph.bench.coerce import ConfigError, coerce, did_you_mean
from torch_energy_graph.bench.config import _set, read_tree, typed
from torch_energy_graph.bench.ogb_data import DataParams, DatasetName
from torch_energy_graph.bench.ogb_models import MODELS

__all__ = [
    'RECIPES',
    'SEEDS',
    'OGBConfig',
    'TrainParams',
    'as_config',
    'load_ogb_config',
]

SEEDS = tuple(range(10))  # the leaderboard's

# What differs from the defaults. proteins: the published DIFFormer-s run;
# the others are starting points, chosen by size and not tuned.
RECIPES: dict[str, dict[str, Any]] = {
    'ogbn-arxiv': {
        'params': {'hidden_channels': 256, 'dropout': 0.5},
        'data': {'undirected': True},
        'training': {'epochs': 500, 'lr': 0.001, 'eval_every': 5},
    },
    'ogbn-proteins': {
        'training': {'epochs': 1000, 'part_size': 10_000, 'eval_every': 9},
    },
    'ogbn-products': {
        'params': {'hidden_channels': 128},
        'training': {'epochs': 300, 'part_size': 100_000, 'eval_every': 9},
    },
}


@dataclasses.dataclass(frozen=True)
class TrainParams:
    """How every seed is trained.

    Args:
        epochs (int): Number of passes over the nodes.
        lr (float): Learning rate of Adam.
        weight_decay (float): L2 penalty.
        part_size (int, optional): Nodes in a random part; :obj:`None` trains
            on the full graph.
        eval_every (int): Epochs between two evaluations; the last epoch is
            always evaluated.
        patience (int, optional): Evaluations without a better validation
            metric after which to stop.
    """

    epochs: int = 500
    lr: float = 0.01
    weight_decay: float = 0.0
    part_size: int | None = None
    eval_every: int = 1
    patience: int | None = None

    def __post_init__(self) -> None:
        for key in ('epochs', 'eval_every', 'part_size', 'patience'):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ConfigError(f"'{key}': expected >= 1 (got {value})")


@dataclasses.dataclass(frozen=True)
class OGBConfig:
    """One entry: a model on a dataset, once for every seed.

    Args:
        dataset (str): Name of the dataset.
        model (str): Name of the model.
        method (str, optional): Name of the entry on the leaderboard; if
            :obj:`None`, that of the model.
        external_data (bool): Whether data beside the dataset's is used.
        params (Any): Parameters of the model, checked against its class.
        data (DataParams): How the graph is prepared.
        training (TrainParams): How a seed is trained.
        seeds (tuple[int, ...]): Seeds; a submission needs 0 to 9.
    """

    dataset: DatasetName
    model: str = 'difformer'
    method: str | None = None
    external_data: bool = False
    params: Any = ''  # as an empty section of a file
    data: DataParams = DataParams()  # noqa: RUF009 (frozen)
    training: TrainParams = TrainParams()
    seeds: tuple[int, ...] = SEEDS

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ConfigError(
                f"'model': unknown model '{self.model}'; "
                f'{did_you_mean(self.model, MODELS)}'
            )
        kind = MODELS[self.model]
        params = coerce(
            {} if self.params == '' else self.params, kind, 'params'
        )
        object.__setattr__(self, 'params', params)
        if self.method is None:
            object.__setattr__(self, 'method', kind.title)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(
                f"'seeds': expected different ones (got {list(self.seeds)})"
            )

    @property
    def hash(self) -> str:
        """Hash of all that decides the result of a seed."""
        told = dataclasses.asdict(self)
        for key in ('method', 'external_data', 'seeds'):
            del told[key]
        text = json.dumps(told, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def load_ogb_config(
    source: str | os.PathLike[str], overrides: Sequence[str] = ()
) -> OGBConfig:
    """Read a file, or take the recipe of a dataset.

    Args:
        source (str or PathLike): A YAML file or the name of a dataset.
        overrides (sequence of str, optional): ``a.b=c`` each, applied in
            order. (default: :obj:`()`)

    Raises:
        ConfigError: With file, key and what was expected.
    """
    name = str(source)
    if name in RECIPES:
        tree: Any = copy.deepcopy({'dataset': name, **RECIPES[name]})
        for override in overrides:
            _set(tree, override)
    elif Path(source).exists():
        tree = read_tree(source, overrides)
    else:
        raise ConfigError(
            f"'{name}' is neither a file nor a dataset; "
            f'{did_you_mean(name, RECIPES)}'
        )
    return as_config(tree, name)


def as_config(tree: Any, where: str) -> OGBConfig:
    """Check a mapping of keys against what the model and we declare.

    Args:
        tree (Any): As it stands in a file.
        where (str): File or folder, for the error message.
    """
    config: OGBConfig = typed(tree, OGBConfig, where)
    return config
