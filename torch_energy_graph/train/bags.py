"""Training of classifiers of bags."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from torch_energy_graph.datasets.bags import BagSource
from torch_energy_graph.metrics import auroc
from torch_energy_graph.train.early_stopping import EarlyStopping

__all__ = ['BagFit', 'BagOptions', 'BagTrainer', 'bag_logits', 'fit_bags']

Record = dict[str, Any]


@dataclass(frozen=True)
class BagOptions:
    """How a classifier of bags is trained.

    Args:
        epochs (int, optional): Passes over the training bags, at most.
            (default: :obj:`100`)
        lr (float, optional): Learning rate of AdamW. (default: :obj:`0.003`)
        weight_decay (float, optional): Its decay. (default: :obj:`0.01`)
        batch_bags (int, optional): Bags per step, in random order; if
            :obj:`None`, all of them. (default: :obj:`None`)
        clip_norm (float, optional): Upper bound of the gradient norm.
            (default: :obj:`None`)
        eval_every (int, optional): Epochs between two evaluations; the last
            epoch is always evaluated. (default: :obj:`1`)
        patience (int, optional): Evaluations without a lower validation loss
            after which to stop; if :obj:`None`, never.
            (default: :obj:`None`)
        seed (int, optional): Seed of dropout and order; the weights are
            drawn before, by the caller. (default: :obj:`0`)
    """

    epochs: int = 100
    lr: float = 3e-3
    weight_decay: float = 0.01
    batch_bags: int | None = None
    clip_norm: float | None = None
    eval_every: int = 1
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.epochs, self.eval_every, self.batch_bags or 1)
        if min(counts) < 1:
            raise ValueError(
                f"expected 'epochs', 'eval_every' and 'batch_bags' >= 1 (got "
                f'{self.epochs}, {self.eval_every} and {self.batch_bags})'
            )

    @property
    def checkpoints(self) -> list[int]:
        """Epochs that are evaluated."""
        inner = range(self.eval_every, self.epochs, self.eval_every)
        return [*inner, self.epochs]


@dataclass(frozen=True)
class BagFit:
    """What :func:`fit_bags` found.

    Attributes:
        best_epoch: The epoch of the restored state, counted from 1.
        history: One record per evaluation: epoch, loss, and with validation
            bags val_loss, val_accuracy and, for two classes, val_auc.
    """

    best_epoch: int
    history: list[Record]


class BagTrainer:
    r"""Steps of AdamW on the cross-entropy of training bags.

    Bags are read by number, with ``select``: those of
    :class:`~torch_energy_graph.datasets.bags.Bags` from memory, those of
    :class:`~torch_energy_graph.datasets.repertoires.Repertoires` from their
    files, a batch at a time. They stay on the CPU, and batches follow the
    model. Labels outside ``train`` are not read. The global random state
    stays as it is.

    Args:
        model (torch.nn.Module): Trained in place. Called with
            :obj:`(x, batch, batch_size)` as
            :class:`~torch_energy_graph.nn.models.HopfieldClassifier`, gives
            logits :math:`[B, C]`.
        bags (BagSource): Bags with their classes.
        train (LongTensor): Numbers of the training bags.
        options (BagOptions, optional): How to train.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        bags: BagSource,
        train: Tensor,
        options: BagOptions | None = None,
    ) -> None:
        self.options = options or BagOptions()
        if train.numel() == 0:
            raise ValueError('expected training bags (got none)')
        self.model = model
        self.bags = bags
        self.train = train
        self.epoch = 0
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=self.options.lr,
            weight_decay=self.options.weight_decay,
        )
        self._order = Generator().manual_seed(self.options.seed)
        self._device = next(model.parameters()).device
        self._whole: list[_Batch] = []
        with self._random():
            torch.manual_seed(self.options.seed)
            self._dropout = self._random_states()

    def run_epoch(self) -> float:
        """Train one epoch; return the mean loss of its bags.

        Raises:
            FloatingPointError: If the loss is no longer finite.
        """
        self.epoch += 1
        self.model.train()
        total = 0.0
        with self._random():
            self._set_random_states(self._dropout)
            for batch in self._batches():
                total += self._step(batch) * batch.y.numel()
            self._dropout = self._random_states()
        return total / self.train.numel()

    def _step(self, batch: '_Batch') -> float:
        self.optimizer.zero_grad()
        loss = cross_entropy(batch.logits(self.model), batch.y)
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(
                f'training diverged in epoch {self.epoch} (got loss {value}, '
                f'lr={self.options.lr}); lower lr, scale the instances or set '
                f"'clip_norm'"
            )
        loss.backward()  # type: ignore[no-untyped-call]
        if self.options.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(
                self.model.parameters(), self.options.clip_norm
            )
        self.optimizer.step()
        return value

    def _batches(self) -> Iterator['_Batch']:
        size = self.options.batch_bags
        if size is None:  # cut once
            if not self._whole:
                self._whole = [_Batch(self.bags, self.train, self._device)]
            yield from self._whole
            return
        order = torch.randperm(self.train.numel(), generator=self._order)
        for part in self.train[order].split(size):
            yield _Batch(self.bags, part, self._device)

    def _random(self) -> Any:
        device = self._device
        return torch.random.fork_rng([device] if device.type == 'cuda' else [])

    def _random_states(self) -> list[Tensor]:
        states = [torch.get_rng_state()]
        if self._device.type == 'cuda':
            states.append(torch.cuda.get_rng_state(self._device))
        return states

    def _set_random_states(self, states: list[Tensor]) -> None:
        torch.set_rng_state(states[0])
        if self._device.type == 'cuda':
            torch.cuda.set_rng_state(states[1], self._device)


class _Batch:
    """Some bags on the device of the model, in PyG's layout."""

    def __init__(
        self, bags: BagSource, index: Tensor, device: torch.device
    ) -> None:
        part = bags.select(index)
        self.x = part.x.to(device)
        self.index = part.batch.to(device)
        self.y = part.y.to(device)

    def logits(self, model: torch.nn.Module) -> Tensor:
        size = self.y.numel()
        out: Tensor = model(self.x, self.index, size)
        if out.dim() != 2 or out.size(0) != size:
            raise ValueError(
                f'expected logits of shape [{size}, C] from the model (got '
                f'{list(out.shape)}); two classes need two of them'
            )
        return out


def fit_bags(
    model: torch.nn.Module,
    bags: BagSource,
    train: Tensor,
    val: Tensor | None = None,
    options: BagOptions | None = None,
    progress: Callable[[Record], None] | None = None,
) -> BagFit:
    r"""Train a classifier of bags; with validation bags, keep the best epoch.

    The best is that of the least validation loss; without validation, the
    last one. The arguments are those of :class:`BagTrainer`, and:

    Args:
        model (torch.nn.Module): Trained in place; ends in eval mode.
        bags (BagSource): Bags with their classes.
        train (LongTensor): Numbers of the training bags.
        val (LongTensor, optional): Numbers of the validation bags.
            (default: :obj:`None`)
        options (BagOptions, optional): How to train.
        progress (callable, optional): Called with every history record.
            (default: :obj:`None`)
    """
    trainer = BagTrainer(model, bags, train, options)
    options = trainer.options
    if val is not None and bool(torch.isin(train, val).any()):
        raise ValueError("expected disjoint 'train' and 'val'")
    stopper = EarlyStopping(options.patience, 'min')
    state, best_epoch = copy.deepcopy(model.state_dict()), 0
    history: list[Record] = []
    for epoch in range(1, options.epochs + 1):
        record = {'epoch': epoch, 'loss': trainer.run_epoch()}
        if epoch not in options.checkpoints:
            continue
        if val is not None:
            record |= _measures(model, bags, val, options)
            if stopper.step(record['val_loss']):
                state = copy.deepcopy(model.state_dict())
                best_epoch = epoch
        history.append(record)
        if progress is not None:
            progress(record)
        if stopper.should_stop:
            break
    if val is None:
        best_epoch = epoch
    else:
        model.load_state_dict(state)
    model.eval()
    return BagFit(best_epoch, history)


@torch.no_grad()
def bag_logits(
    model: torch.nn.Module,
    bags: BagSource,
    index: Tensor | None = None,
    batch_bags: int | None = None,
) -> Tensor:
    r"""Logits of a model in eval mode, float32 on the CPU, :math:`[B, C]`.

    Args:
        model (torch.nn.Module): See :class:`BagTrainer`.
        bags (BagSource): Bags; their classes are not read.
        index (LongTensor, optional): Numbers of bags.
            (default: :obj:`None`, all)
        batch_bags (int, optional): Bags at a time.
            (default: :obj:`None`, all)
    """
    if index is None:
        index = torch.arange(bags.y.numel())
    training = model.training
    device = next(model.parameters()).device
    model.eval()
    try:
        parts = [
            _Batch(bags, part, device).logits(model).float().cpu()
            for part in index.split(batch_bags or index.numel())
        ]
    finally:
        model.train(training)
    return torch.cat(parts)


def margin(logits: Tensor) -> NDArray[np.float64]:
    """Score of class 1 of two, positive where it is the likelier."""
    return (logits[:, 1].double() - logits[:, 0].double()).numpy()


def _measures(
    model: torch.nn.Module, bags: BagSource, val: Tensor, options: BagOptions
) -> Record:
    logits = bag_logits(model, bags, val, options.batch_bags).double()
    y = bags.y[val]
    loss = float(cross_entropy(logits, y))
    if not math.isfinite(loss):
        raise FloatingPointError(
            f'expected a finite validation loss (got {loss}, lr='
            f"{options.lr}); lower lr or set 'clip_norm'"
        )
    right = (logits.argmax(-1) == y).double().mean()
    record: Record = {'val_loss': loss, 'val_accuracy': float(right)}
    if logits.size(1) == 2:
        record['val_auc'] = auroc(y.numpy(), margin(logits))
    return record
