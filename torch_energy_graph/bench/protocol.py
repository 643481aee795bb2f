"""Protocols decide which nodes train, select and test; models do not."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from torch_energy_graph.bench.classes import CLASS_PROTOCOLS
from torch_energy_graph.bench.coerce import ConfigError, did_you_mean
from torch_energy_graph.bench.goal import ANOMALIES, Goal
from torch_energy_graph.bench.registry import Task
from torch_energy_graph.bench.split import (
    Protocol,
    Split,
    binary_labels,
    checked,
    masks_of,
    stored_masks,
)

__all__ = [
    'PROTOCOLS',
    'GADBenchProtocol',
    'InductiveProtocol',
    'OfficialProtocol',
    'Protocol',
    'Split',
    'StratifiedProtocol',
    'get_protocol',
    'goal_of',
]

STORED = 10  # columns 0-9 of the 'gadbench' masks: full, 10-19: semi


@dataclass(frozen=True)
class StratifiedProtocol:
    """Random splits of the labelled nodes with equal share of anomalies.

    A fraction of the nodes trains, a third of the rest validates and two
    thirds test. Split ``i`` is drawn with seed ``3407 + 10 i``.

    Args:
        train_fraction (float): Share of the labelled nodes that train.
    """

    train_fraction: float
    goal: ClassVar[Goal] = ANOMALIES

    def split(self, task: Task, index: int) -> Split:
        """Return the split with this index."""
        y = binary_labels(task)
        seed = _seed(index)
        labelled = np.flatnonzero(y >= 0)
        try:
            train, rest = train_test_split(
                labelled,
                train_size=self.train_fraction,
                stratify=y[labelled],
                random_state=seed,
            )
            val, test = train_test_split(
                rest, train_size=1 / 3, stratify=y[rest], random_state=seed
            )
        except ValueError as error:
            raise ValueError(
                f'cannot split {len(labelled)} labelled nodes with '
                f'{int((y == 1).sum())} anomalies: {error}'
            ) from error
        return checked(Split(*masks_of(len(y), train, val, test), seed), y)


@dataclass(frozen=True)
class OfficialProtocol:
    """Masks that are stored in the dataset.

    Args:
        family (str): Name of the family of masks.
    """

    family: str
    goal: ClassVar[Goal] = ANOMALIES

    def split(self, task: Task, index: int) -> Split:
        """Return column ``index`` of the stored masks."""
        y = binary_labels(task)
        masks = stored_masks(task, (self.family,), index, 'et-40pct')
        return checked(Split(*masks), y)


@dataclass(frozen=True)
class GADBenchProtocol:
    """The recipe of the GADBench benchmark (arXiv:2306.12251).

    A dataset with masks of the family ``gadbench`` gives those: columns 0 to
    9 are fully, 10 to 19 semi-supervised. For others they are drawn, with
    seed ``3407 + 10 i``: stratified 40/20/40, or (semi) 20 anomalous and 80
    normal nodes each for training and validation, and the rest for test.
    GADBench draws from a shared random state, so drawn masks follow its
    recipe but are not its masks.

    Args:
        semi (bool): Whether only 100 nodes train.
    """

    semi: bool
    goal: ClassVar[Goal] = ANOMALIES

    def split(self, task: Task, index: int) -> Split:
        """Return the split with this index, at most 9."""
        if index >= STORED:
            raise ValueError(
                f'expected a split below {STORED} of GADBench (got {index})'
            )
        if 'gadbench' in task.splits:
            column = index + STORED * self.semi
            return OfficialProtocol('gadbench').split(task, column)
        if self.semi:
            return _few_labels(task, index)
        return StratifiedProtocol(0.4).split(task, index)


@dataclass(frozen=True)
class InductiveProtocol:
    """The splits of another protocol, with test nodes unseen in training.

    A model is fitted, and its epoch and threshold chosen, on the graph
    without the test nodes and their edges. Then it scores the full graph.

    Args:
        base (Protocol): Who draws the splits.
    """

    base: Protocol

    @property
    def goal(self) -> Goal:
        """That of the other protocol."""
        return self.base.goal

    def split(self, task: Task, index: int) -> Split:
        """Return the split with this index."""
        return replace(self.base.split(task, index), inductive=True)


PROTOCOLS: dict[str, Protocol] = {
    'et-1pct': StratifiedProtocol(0.01),
    'et-40pct': StratifiedProtocol(0.40),
    'gadbench-full': GADBenchProtocol(semi=False),
    'gadbench-semi': GADBenchProtocol(semi=True),
    'inductive': InductiveProtocol(StratifiedProtocol(0.40)),
    'official': OfficialProtocol('official'),
    **CLASS_PROTOCOLS,
}


def get_protocol(name: str) -> Protocol:
    """Return a protocol by name."""
    if name not in PROTOCOLS:
        raise ConfigError(
            f"unknown protocol '{name}'; {did_you_mean(name, PROTOCOLS)}"
        )
    return PROTOCOLS[name]


def goal_of(name: str) -> Goal:
    """Return the goal of a protocol; anomalies if it is unknown."""
    return PROTOCOLS[name].goal if name in PROTOCOLS else ANOMALIES


def _seed(index: int) -> int:
    return 3407 + 10 * index


def _few_labels(task: Task, index: int) -> Split:
    """Draw 20 + 80 nodes each for training and validation."""
    y, rng = binary_labels(task), np.random.default_rng(_seed(index))
    parts: list[list[NDArray[np.int64]]] = [[], [], []]
    for label, count in ((1, 20), (0, 80)):
        nodes = rng.permutation(np.flatnonzero(y == label))
        if len(nodes) <= 2 * count:
            raise ValueError(
                f'expected more than {2 * count} nodes with label {label} '
                f'for the semi-supervised recipe (got {len(nodes)}); use '
                f"'gadbench-full'"
            )
        cuts = np.split(nodes, [count, 2 * count])
        for part, chosen in zip(parts, cuts, strict=True):
            part.append(chosen)
    train, val, test = (np.concatenate(part) for part in parts)
    masks = masks_of(len(y), train, val, test)
    return checked(Split(*masks, _seed(index)), y)
