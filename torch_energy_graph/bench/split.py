"""A split: which nodes train, select and test."""

import hashlib
from dataclasses import dataclass, replace
from typing import Protocol as Interface

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_energy_graph.bench.goal import Goal
from torch_energy_graph.bench.registry import Task

__all__ = [
    'PARTS',
    'Protocol',
    'Split',
    'binary_labels',
    'checked',
    'masks_of',
    'stored_masks',
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
        inductive (bool, optional): Whether test nodes and their edges are
            absent while a model is fitted. (default: :obj:`False`)
        classes (int, optional): Number of classes; :obj:`None` if labels
            tell anomalies. (default: :obj:`None`)
    """

    train: Tensor
    val: Tensor
    test: Tensor
    seed: int | None = None
    inductive: bool = False
    classes: int | None = None

    def describe(self, y: Tensor) -> dict[str, object]:
        """Return seed and fingerprint and, by part, the numbers of nodes."""
        counts: dict[str, dict[str, object]] = {}
        for part in PARTS:
            labels = y[getattr(self, part)]
            counts[part] = {'nodes': labels.numel()}
            if self.classes is None:
                counts[part]['anomalies'] = int((labels == 1).sum())
            else:
                found = labels.bincount(minlength=self.classes)
                counts[part]['classes'] = found.tolist()
        return {'seed': self.seed, 'masks': self.fingerprint(), **counts}

    def packed(self) -> NDArray[np.uint8]:
        """Return the masks as bits, ``[3, ceil(N / 8)]``."""
        masks = [getattr(self, part).cpu().numpy() for part in PARTS]
        return np.packbits(np.stack(masks), axis=1)

    def fingerprint(self) -> str:
        """Return a hash of the masks: equal splits have equal ones."""
        return hashlib.sha256(self.packed().tobytes()).hexdigest()[:12]

    def among(self, nodes: Tensor) -> 'Split':
        """Return the split of the subgraph of these nodes, bool [N]."""
        masks = {part: getattr(self, part)[nodes] for part in PARTS}
        return replace(self, **masks)


class Protocol(Interface):
    """Draws the split with a given index, always the same one."""

    @property
    def goal(self) -> Goal:
        """What models are to tell, and how it is measured."""

    def split(self, task: Task, index: int) -> Split:
        """Return the split, or say why there is none (ValueError)."""


def binary_labels(task: Task) -> NDArray[np.int64]:
    """Return the labels, which must be 0, 1 or -1."""
    y: NDArray[np.int64] = task.data.y.cpu().numpy()
    classes = np.unique(y)
    if not np.isin(classes, (-1, 0, 1)).all():
        raise ValueError(
            f'expected labels 0 (normal), 1 (anomalous) and -1 (unlabelled) '
            f'(got {classes[:6].tolist()}); choose a dataset with anomalies'
        )
    return y


def checked(split: Split, y: NDArray[np.int64]) -> Split:
    """Return the split if each of its parts holds both classes."""
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


def masks_of(
    num_nodes: int,
    train: NDArray[np.int64],
    val: NDArray[np.int64],
    test: NDArray[np.int64],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the masks [N] of three arrays of node indices."""

    def mask_of(nodes: NDArray[np.int64]) -> Tensor:
        mask = torch.zeros(num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(nodes)] = True
        return mask

    return mask_of(train), mask_of(val), mask_of(test)


def stored_masks(
    task: Task, families: tuple[str, ...], index: int, other: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Return column ``index`` of the first family that is stored.

    Args:
        task (Task): Its unlabelled nodes are left out.
        families (tuple[str, ...]): Names of families of masks.
        index (int): Which of the family's splits.
        other (str): A protocol that draws splits, for the message.
    """
    for family in families:
        if family in task.splits:
            break
    else:
        present = ', '.join(sorted(task.splits)) or 'none'
        wanted = "' or '".join(families)
        raise ValueError(
            f"expected stored splits of the family '{wanted}' "
            f'(families present: {present}); use a protocol that draws '
            f"splits, such as '{other}'"
        )
    masks = task.splits[family]
    count = masks[0].size(1)
    if index >= count:
        raise ValueError(
            f"expected a split below {count} of the family '{family}' (got "
            f'{index})'
        )
    labelled = task.data.y >= 0
    train, val, test = (mask[:, index] & labelled for mask in masks)
    return train, val, test
