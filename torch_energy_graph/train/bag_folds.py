r"""Cross-validation of classifiers of bags, settings chosen inside.

Ten folds are few bags each, so a fold of its own for the choice of settings
would waste training bags, and folds within folds multiply the trainings. Here
settings are chosen for fold i with its neighbours in a ring: a model that is
trained without the folds i and i + 1 is validated on i + 1 for the choice of
fold i, and on i for that of i + 1. With S settings these are S F trainings
for F folds, and the choice for a fold rests on two folds of validation, of
models that have seen neither it nor the fold they are validated on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from torch_energy_graph.datasets.bags import Bags
from torch_energy_graph.metrics import auroc
from torch_energy_graph.train.bags import (
    BagOptions,
    BagTrainer,
    bag_logits,
    margin,
)

__all__ = [
    'FoldResult',
    'Learner',
    'bag_folds',
    'bag_learner',
    'cross_validate_bags',
]

#: Called with bags and the numbers of training bags; gives the scores of all
#: bags at every checkpoint, :math:`[E, B]`. Reads no other labels.
Learner = Callable[[Bags, Tensor], NDArray[np.float64]]


@dataclass(frozen=True)
class FoldResult:
    """The test of one fold.

    Attributes:
        auc: Area under the ROC curve of the test bags.
        accuracy: Share of test bags whose score has the right sign.
        setting: Name of the chosen setting.
        checkpoint: Its chosen checkpoint, counted from 0.
        scores: Of the test bags, in the order of the fold.
    """

    auc: float
    accuracy: float
    setting: str
    checkpoint: int
    scores: list[float]


def bag_folds(y: Tensor, num_folds: int = 10, seed: int = 0) -> list[Tensor]:
    """Numbers of the bags of every stratified fold, ascending.

    Args:
        y (LongTensor): Class of every bag, :math:`[B]`.
        num_folds (int, optional): Number of folds. (default: :obj:`10`)
        seed (int, optional): Seed of the assignment. (default: :obj:`0`)
    """
    least = int(y.bincount().min()) if y.numel() else 0
    if not 2 <= num_folds <= least:
        raise ValueError(
            f"expected 'num_folds' from 2 to {least}, the bags of the rarest "
            f'class, so that each fold has one (got {num_folds})'
        )
    splitter = StratifiedKFold(num_folds, shuffle=True, random_state=seed)
    return [
        torch.from_numpy(test)
        for _, test in splitter.split(np.zeros(len(y)), y.numpy())
    ]


def bag_learner(
    build: Callable[[int], torch.nn.Module],
    options: BagOptions,
    scale: bool = True,
) -> Learner:
    r"""A learner that trains a model from scratch.

    Its checkpoints are those of the options. The global random state stays
    as it is.

    Args:
        build (callable): Gives a model for a number of features.
        options (BagOptions): How to train; its seed also draws the weights.
        scale (bool, optional): Whether features are scaled by the training
            bags first. (default: :obj:`True`)
    """

    def learn(bags: Bags, train: Tensor) -> NDArray[np.float64]:
        if scale:
            bags = bags.scaled_by(train)
        with torch.random.fork_rng([]):
            torch.manual_seed(options.seed)
            model = build(bags.x.size(-1))
        trainer = BagTrainer(model, bags, train, options)
        scores = []
        for epoch in range(1, options.epochs + 1):
            trainer.run_epoch()
            if epoch in options.checkpoints:
                logits = bag_logits(model, bags, None, options.batch_bags)
                scores.append(margin(logits))
        return np.stack(scores)

    return learn


def cross_validate_bags(
    learners: Mapping[str, Learner],
    bags: Bags,
    folds: Sequence[Tensor],
    progress: Callable[[], None] | None = None,
) -> list[FoldResult]:
    r"""Test every fold with the setting that is best on its neighbours.

    See the head of this module. Ties go to the first setting and the first
    checkpoint. With one setting and one checkpoint nothing is chosen.

    Args:
        learners (dict): Learners by name of the setting.
        bags (Bags): Bags of two classes.
        folds (sequence): Numbers of the bags of every fold, at least three,
            see :func:`bag_folds`.
        progress (callable, optional): Called after every training.
            (default: :obj:`None`)
    """
    if len(folds) < 3 or int(bags.y.max()) > 1:
        raise ValueError(
            f'expected at least 3 folds and the classes 0 and 1 (got '
            f'{len(folds)} folds and classes up to {int(bags.y.max())})'
        )

    def learn(name: str, *left_out: int) -> NDArray[np.float64]:
        kept = [fold for i, fold in enumerate(folds) if i not in left_out]
        scores = learners[name](bags, torch.cat(kept))
        if progress is not None:
            progress()
        return scores

    curves = {name: _curves(bags, folds, name, learn) for name in learners}
    results = []
    for i, fold in enumerate(folds):
        name = max(curves, key=lambda name: curves[name][i].max())
        checkpoint = int(curves[name][i].argmax())
        scores = learn(name, i)[checkpoint, fold.numpy()]
        y = bags.y[fold].numpy()
        results.append(
            FoldResult(
                _auc(y, scores),
                float(((scores > 0) == y).mean()),
                name,
                checkpoint,
                scores.tolist(),
            )
        )
    return results


def _curves(
    bags: Bags,
    folds: Sequence[Tensor],
    name: str,
    learn: Callable[..., NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Validation AUC for every fold and checkpoint, [F, E]."""
    sums: list[list[NDArray[np.float64]]] = [[] for _ in folds]
    for i in range(len(folds)):
        after = (i + 1) % len(folds)
        scores = learn(name, i, after)
        for chosen, seen in ((i, after), (after, i)):
            y = bags.y[folds[seen]].numpy()
            rows = scores[:, folds[seen].numpy()]
            sums[chosen].append(np.array([_auc(y, row) for row in rows]))
    return np.array(sums).mean(1)


def _auc(y: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    found = auroc(y, scores)
    if found is None:
        raise ValueError(
            'expected folds with bags of both classes; draw them with '
            'bag_folds'
        )
    return found
