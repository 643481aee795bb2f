"""Protocols decide which nodes train, select and test; models do not."""

from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from torch import Tensor

from torch_energy_graph.bench.coerce import ConfigError, did_you_mean
from torch_energy_graph.bench.registry import Task

__all__ = [
    'PROTOCOLS',
    'OfficialProtocol',
    'Protocol',
    'Split',
    'StratifiedProtocol',
    'get_protocol',
]

PARTS = ('train', 'val', 'test')


@dataclass(frozen=True)
class Split:
    """Disjoint masks of labelled nodes, bool :math:`[N]` each.

    Args:
        train (Tensor): Nodes to fit on.
        val (Tensor): Nodes to choose epoch and threshold on.
        test (Tensor): Nodes to report on.
        seed (int, optional): What the split was drawn with.
            (default: :obj:`None`)
    """

    train: Tensor
    val: Tensor
    test: Tensor
    seed: int | None = None

    def describe(self, y: Tensor) -> dict[str, object]:
        """Return the seed and, by part, the numbers of nodes."""
        counts = {
            part: {
                'nodes': int(getattr(self, part).sum()),
                'anomalies': int((y[getattr(self, part)] == 1).sum()),
            }
            for part in PARTS
        }
        return {'seed': self.seed, **counts}


class Protocol(Interface):
    """Draws the split with a given index, always the same one."""

    def split(self, task: Task, index: int) -> Split:
        """Return the split, or say why there is none (ValueError)."""


@dataclass(frozen=True)
class StratifiedProtocol:
    """Random splits of the labelled nodes with equal share of anomalies.

    A fraction of the nodes trains, a third of the rest validates and two
    thirds test. Split ``i`` is drawn with seed ``3407 + 10 i``.

    Args:
        train_fraction (float): Share of the labelled nodes that train.
    """

    train_fraction: float

    def split(self, task: Task, index: int) -> Split:
        """Return the split with this index."""
        y = _binary_labels(task)
        seed = 3407 + 10 * index
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
        train, val, test = (
            torch.from_numpy(np.isin(np.arange(len(y)), nodes))
            for nodes in (train, val, test)
        )
        return _checked(Split(train, val, test, seed), y)


@dataclass(frozen=True)
class OfficialProtocol:
    """Masks that are stored in the dataset.

    Args:
        family (str): Name of the family of masks.
    """

    family: str

    def split(self, task: Task, index: int) -> Split:
        """Return column ``index`` of the stored masks."""
        y = _binary_labels(task)
        if self.family not in task.splits:
            present = ', '.join(sorted(task.splits)) or 'none'
            raise ValueError(
                f"expected stored splits of the family '{self.family}' "
                f'(families present: {present}); use a protocol that draws '
                f"splits, such as 'et-40pct'"
            )
        masks = task.splits[self.family]
        count = masks[0].size(1)
        if index >= count:
            raise ValueError(
                f'expected a split below {count} of the family '
                f"'{self.family}' (got {index})"
            )
        labelled = torch.from_numpy(y >= 0)
        train, val, test = (mask[:, index] & labelled for mask in masks)
        return _checked(Split(train, val, test), y)


PROTOCOLS: dict[str, Protocol] = {
    'et-1pct': StratifiedProtocol(0.01),
    'et-40pct': StratifiedProtocol(0.40),
    'official': OfficialProtocol('official'),
}


def get_protocol(name: str) -> Protocol:
    """Return a protocol by name."""
    if name not in PROTOCOLS:
        raise ConfigError(
            f"unknown protocol '{name}'; {did_you_mean(name, PROTOCOLS)}"
        )
    return PROTOCOLS[name]


def _binary_labels(task: Task) -> NDArray[np.int64]:
    y: NDArray[np.int64] = task.data.y.cpu().numpy()
    classes = np.unique(y)
    if not np.isin(classes, (-1, 0, 1)).all():
        raise ValueError(
            f'expected labels 0 (normal), 1 (anomalous) and -1 (unlabelled) '
            f'(got {classes[:6].tolist()}); choose a dataset with anomalies'
        )
    return y


def _checked(split: Split, y: NDArray[np.int64]) -> Split:
    for part in PARTS:
        labels = y[getattr(split, part).numpy()]
        for label, name in ((1, 'anomalous'), (0, 'normal')):
            if not (labels == label).any():
                raise ValueError(
                    f'the {part} part of {len(labels)} nodes holds no {name} '
                    f'node ({int((y == 1).sum())} anomalies among '
                    f'{int((y >= 0).sum())} labelled nodes); use a protocol '
                    f'with a larger part or another split'
                )
    return split
