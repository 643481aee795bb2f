"""Protocols of node classification: which nodes train, select and test.

Random ones draw from the torch generator with seed 123, split 0 first and
each split after the one before it, as the released code of DIFFormer does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from torch_energy_graph.bench.goal import CLASSES, Goal
from torch_energy_graph.bench.registry import Task
from torch_energy_graph.bench.split import (
    PARTS,
    Protocol,
    Split,
    stored_masks,
)

__all__ = [
    'CLASS_PROTOCOLS',
    'PerClassProtocol',
    'SharesProtocol',
    'StoredProtocol',
]

SEED = 123


@dataclass(frozen=True)
class StoredProtocol:
    """Masks that are stored in the dataset.

    Args:
        families (tuple[str, ...]): Names of families of masks; the first one
            that a dataset has counts.
    """

    families: tuple[str, ...]
    goal: ClassVar[Goal] = CLASSES

    def split(self, task: Task, index: int) -> Split:
        """Return column ``index`` of the stored masks."""
        classes = _num_classes(task)
        masks = stored_masks(task, self.families, index, 'random-60-20-20')
        return _checked(Split(*masks, classes=classes))


@dataclass(frozen=True)
class PerClassProtocol:
    """As many random training nodes of each class, and the rest cut in two.

    The recipe of DIFFormer's released code: for each class in ascending
    order its nodes are permuted and the first ones train; the others, class
    by class, are permuted once more.

    Args:
        train (int): Training nodes of each class.
        val (int): Validation nodes.
        test (int, optional): Test nodes; the rest if :obj:`None`.
    """

    train: int
    val: int
    test: int | None = None
    goal: ClassVar[Goal] = CLASSES

    def split(self, task: Task, index: int) -> Split:
        """Return the split with this index."""
        y, classes = task.data.y.cpu(), _num_classes(task)
        labels, sizes = y[y >= 0].unique(return_counts=True)
        total, smallest = int(sizes.sum()), int(sizes.min())
        spare = total - labels.numel() * self.train - self.val
        if smallest <= self.train or spare < (self.test or 1):
            raise ValueError(
                f'cannot draw {self.train} training nodes of each class, '
                f'{self.val} for validation and {self.test or "some"} for '
                f'test from {total} labelled nodes in {labels.numel()} '
                f'classes (the smallest has {smallest}); use '
                f"'random-60-20-20'"
            )
        gen = Generator().manual_seed(SEED)
        for _ in range(index + 1):
            train, rest = self._draw(y, gen)
        end = None if self.test is None else self.val + self.test
        parts = (train, rest[: self.val], rest[self.val : end])
        return _checked(Split(*_masks(y, parts), seed=SEED, classes=classes))

    def _draw(self, y: Tensor, gen: Generator) -> tuple[Tensor, Tensor]:
        train, rest = [], []
        for label in y[y >= 0].unique():
            nodes = (y == label).nonzero().view(-1)
            nodes = nodes[torch.randperm(nodes.numel(), generator=gen)]
            train.append(nodes[: self.train])
            rest.append(nodes[self.train :])
        others = torch.cat(rest)
        order = torch.randperm(others.numel(), generator=gen)
        return torch.cat(train), others[order]


@dataclass(frozen=True)
class SharesProtocol:
    """Shares of each class train and validate, its other nodes test.

    Args:
        train (float): Share of training nodes.
        val (float): Share of validation nodes.
    """

    train: float
    val: float
    goal: ClassVar[Goal] = CLASSES

    def split(self, task: Task, index: int) -> Split:
        """Return the split with this index."""
        y, classes = task.data.y.cpu(), _num_classes(task)
        gen = Generator().manual_seed(SEED)
        for _ in range(index + 1):
            parts: tuple[list[Tensor], ...] = ([], [], [])
            for label in y[y >= 0].unique():
                nodes = (y == label).nonzero().view(-1)
                count = nodes.numel()
                nodes = nodes[torch.randperm(count, generator=gen)]
                cuts = [
                    round(self.train * count),
                    round((self.train + self.val) * count),
                ]
                for part, cut in zip(
                    parts, nodes.tensor_split(cuts), strict=True
                ):
                    part.append(cut)
        masks = _masks(y, [torch.cat(part) for part in parts])
        return _checked(Split(*masks, seed=SEED, classes=classes))


CLASS_PROTOCOLS: Mapping[str, Protocol] = {
    'geom-gcn': StoredProtocol(('geomgcn', 'official')),
    'per-class-10': PerClassProtocol(10, 1000),
    'per-class-50': PerClassProtocol(50, 1000),
    'per-class-100': PerClassProtocol(100, 1000),
    'planetoid-random': PerClassProtocol(20, 500, 1000),
    'polynormer': StoredProtocol(('polynormer',)),
    'public': StoredProtocol(('official',)),
    'random-60-20-20': SharesProtocol(0.6, 0.2),
}


def _num_classes(task: Task) -> int:
    """Return one more than the largest label."""
    y = task.data.y
    classes = int(y.max()) + 1
    if int(y.min()) < -1 or classes < 2:
        raise ValueError(
            f'expected classes 0, 1, ... and -1 for unlabelled nodes (got '
            f'labels from {int(y.min())} to {int(y.max())})'
        )
    return classes


def _masks(
    y: Tensor, parts: tuple[Tensor, ...] | list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    masks = torch.zeros(3, y.numel(), dtype=torch.bool)
    for mask, nodes in zip(masks, parts, strict=True):
        mask[nodes] = True
    return masks[0], masks[1], masks[2]


def _checked(split: Split) -> Split:
    for part in PARTS:
        if not bool(getattr(split, part).any()):
            raise ValueError(
                f'the {part} part holds no labelled node; use another '
                f'protocol or split'
            )
    return split
