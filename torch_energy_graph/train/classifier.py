"""Training of node classifiers, which can stop and go on after any epoch."""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.nn.parameter import is_lazy

from torch_geometric.data import Data

from torch_energy_graph.data import check_graph
from torch_energy_graph.loader import RandomPartitionLoader
from torch_energy_graph.train.early_stopping import EarlyStopping

__all__ = [
    'ClassifierResult',
    'ClassifierTrainer',
    'Objective',
    'TrainOptions',
]

Predict = Callable[[torch.nn.Module, Data], Tensor]
Objective = Callable[[Callable[[Data], Tensor], Data, Tensor, Tensor], Tensor]
Record = dict[str, Any]


@dataclass(frozen=True)
class TrainOptions:
    """How a node classifier is trained.

    Args:
        epochs (int, optional): Passes over the training nodes, at most.
            (default: :obj:`500`)
        lr (float, optional): Learning rate of Adam. (default: :obj:`0.01`)
        weight_decay (float, optional): L2 penalty. (default: :obj:`0.0`)
        patience (int, optional): Evaluations without a better validation
            measure after which to stop; if :obj:`None`, never.
            (default: :obj:`None`)
        eval_every (int, optional): Epochs between two evaluations; the last
            epoch is always evaluated. (default: :obj:`1`)
        clip_norm (float, optional): Upper bound of the gradient norm.
            (default: :obj:`None`)
        num_parts (int, optional): Train on that many random disjoint parts
            (:class:`~torch_energy_graph.loader.RandomPartitionLoader`)
            instead of the full graph. (default: :obj:`None`)
        seed (int, optional): Seed of dropout and parts; the weights are drawn
            before, by the caller. (default: :obj:`0`)
        select (str, optional): What is best on validation nodes,
            :obj:`"accuracy"` or the cross-entropy, :obj:`"loss"`.
            (default: :obj:`"accuracy"`)
    """

    epochs: int = 500
    lr: float = 0.01
    weight_decay: float = 0.0
    patience: int | None = None
    eval_every: int = 1
    clip_norm: float | None = None
    num_parts: int | None = None
    seed: int = 0
    select: Literal['accuracy', 'loss'] = 'accuracy'

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.eval_every < 1:
            raise ValueError(
                f"expected 'epochs' and 'eval_every' >= 1 (got {self.epochs} "
                f'and {self.eval_every})'
            )
        if self.select not in ('accuracy', 'loss'):
            raise ValueError(
                f"expected 'select' accuracy or loss (got {self.select!r})"
            )


@dataclass(frozen=True)
class ClassifierResult:
    """What a training found.

    Attributes:
        scores: Class probabilities of all nodes at the best epoch, float64,
            :math:`[N, C]`.
        best_epoch: The epoch of the restored state, counted from 1.
        history: One record per evaluation: epoch, loss, val_accuracy,
            val_loss.
        num_parameters: Number of trained parameters.
    """

    scores: NDArray[np.float64]
    best_epoch: int
    history: list[Record]
    num_parameters: int


class ClassifierTrainer:
    r"""Trains with Adam and keeps the epoch that is best on validation nodes.

    The loss is the cross-entropy of the training nodes unless an objective is
    given. Evaluation runs the full graph at once, in eval mode and without
    gradients: one pass needs the activations of a few layers,
    :math:`O(N H + E)`, and models with all-pair attention have no smaller
    exact one. Labels outside the two masks are never read, and ``predict``
    gets the graph without labels. The global random state stays as it is.

    Between two epochs, :meth:`state` is all that is needed to go on with the
    same numbers.

    Args:
        model (torch.nn.Module): Trained in place.
        data (Data): Graph with :obj:`x`, :obj:`edge_index` and :obj:`y`, the
            classes :math:`0, \dots, C - 1`, on the device of the model.
        train_mask (Tensor): Training nodes, bool :math:`[N]`.
        val_mask (Tensor): Validation nodes, bool :math:`[N]`.
        options (TrainOptions, optional): How to train.
        predict (callable, optional): :obj:`predict(model, data)` giving
            logits :math:`[N, C]`; if :obj:`None`,
            :obj:`model(data.x, data.edge_index)`. (default: :obj:`None`)
        objective (callable, optional): :obj:`objective(logits, part, mask,
            y)` giving the loss of the training nodes :obj:`mask` of a graph
            or part, where :obj:`logits(part)` runs the model, also on a copy
            of the part with features that need a gradient. Labels outside
            the mask are not to be read. (default: :obj:`None`)
    """

    def __init__(
        self,
        model: torch.nn.Module,
        data: Data,
        train_mask: Tensor,
        val_mask: Tensor,
        options: TrainOptions | None = None,
        predict: Predict | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.options = options or TrainOptions()
        check_graph(data, binary=False)
        self.train_mask = _checked('train_mask', train_mask, data)
        self.val_mask = _checked('val_mask', val_mask, data)
        if bool((self.train_mask & self.val_mask).any()):
            raise ValueError('expected disjoint train_mask and val_mask')
        self.model = model
        self.y = data.y
        self.graph = copy.copy(data)
        del self.graph.y
        self.predict = predict or _default_predict
        self.objective = objective or _cross_entropy
        self.epoch = 0
        self.best_epoch = 0
        self.history: list[Record] = []
        self._stopper = EarlyStopping(
            self.options.patience,
            'max' if self.options.select == 'accuracy' else 'min',
        )
        seed = self.options.seed
        self._parts = Generator().manual_seed(seed)
        with self._random():
            torch.manual_seed(seed)
            self._dropout = self._random_states()
        self._initialize()
        self._best = copy.deepcopy(model.state_dict())
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=self.options.lr,
            weight_decay=self.options.weight_decay,
        )

    @property
    def finished(self) -> bool:
        """Whether the epochs or the patience are used up."""
        used_up = self.epoch >= self.options.epochs
        return used_up or self._stopper.should_stop

    def run_epoch(self) -> Record | None:
        """Train one epoch; return its record if it was evaluated.

        Raises:
            FloatingPointError: If a loss is no longer finite.
        """
        with self._random():
            self._set_random_states(self._dropout)
            loss = self._train(self.epoch + 1)
            self._dropout = self._random_states()
        self.epoch += 1
        if self.epoch % self.options.eval_every and not self.finished:
            return None
        record = {'epoch': self.epoch, 'loss': loss, **self._evaluate()}
        self.history.append(record)
        if self._stopper.step(record[f'val_{self.options.select}']):
            self._best = copy.deepcopy(self.model.state_dict())
            self.best_epoch = self.epoch
        return record

    def fit(
        self, progress: Callable[[Record], None] | None = None
    ) -> ClassifierResult:
        """Run what is left and return the result; see :meth:`finish`."""
        while not self.finished:
            record = self.run_epoch()
            if record is not None and progress is not None:
                progress(record)
        return self.finish()

    @torch.no_grad()
    def finish(self) -> ClassifierResult:
        """Put the model into its best state and score all nodes."""
        self.model.load_state_dict(self._best)
        self.model.eval()
        scores = self._logits(self.graph).double().softmax(-1).cpu().numpy()
        size = sum(
            p.numel() for p in self.model.parameters() if p.requires_grad
        )
        return ClassifierResult(scores, self.best_epoch, self.history, size)

    def state(self) -> tuple[dict[str, Tensor], Record]:
        """Return tensors, and values for JSON, that :meth:`load` takes.

        The tensors are those of the trainer: copy or write them before the
        next epoch.
        """
        tensors = {
            **_prefixed('model', self.model.state_dict()),
            **_prefixed('best', self._best),
            **_prefixed('dropout', self._dropout),
            'parts': self._parts.get_state(),
        }
        for i, moments in self.optimizer.state_dict()['state'].items():
            tensors |= _prefixed(f'optimizer.{i}', moments)
        values = {
            'epoch': self.epoch,
            'best_epoch': self.best_epoch,
            'best': self._stopper.best if self.history else None,
            'num_bad': self._stopper.num_bad,
            'history': list(self.history),
        }
        return tensors, values

    def load(self, tensors: dict[str, Tensor], values: Record) -> None:
        """Go on from a state of a trainer that was made in the same way."""
        self.model.load_state_dict(_below('model', tensors))
        self._best = _below('best', tensors)
        self._dropout = _below('dropout', tensors)
        self._parts.set_state(tensors['parts'])
        optimizer = self.optimizer.state_dict()
        optimizer['state'] = {
            i: _below(f'optimizer.{i}', tensors)
            for i in range(len(self.optimizer.param_groups[0]['params']))
            if f'optimizer.{i}.step' in tensors
        }
        self.optimizer.load_state_dict(optimizer)
        self.epoch = values['epoch']
        self.best_epoch = values['best_epoch']
        self.history = list(values['history'])
        if self.history:
            self._stopper.best = values['best']
        self._stopper.num_bad = values['num_bad']

    def _train(self, epoch: int) -> float:
        """Mean loss over the training nodes of all parts."""
        self.model.train()
        total = 0.0
        for part in self._epoch_parts():
            n_id = part.get('n_id', slice(None))
            mask, y = self.train_mask[n_id], self.y[n_id]
            count = int(mask.sum())
            if count == 0:
                continue
            self.optimizer.zero_grad()
            loss = self.objective(self._logits, part, mask, y)
            value = loss.item()
            if not math.isfinite(value):
                raise self._diverged(f'loss {value}', epoch)
            loss.backward()  # type: ignore[no-untyped-call]
            if self.options.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(
                    self.model.parameters(), self.options.clip_norm
                )
            self.optimizer.step()
            total += value * count
        return total / int(self.train_mask.sum())

    def _epoch_parts(self) -> Iterable[Data]:
        if self.options.num_parts is None:
            return [self.graph]
        return RandomPartitionLoader(
            self.graph, self.options.num_parts, generator=self._parts
        )

    @torch.no_grad()
    def _evaluate(self) -> Record:
        self.model.eval()
        logits = self._logits(self.graph)[self.val_mask].double()
        y = self.y[self.val_mask]
        loss = float(cross_entropy(logits, y))
        if not math.isfinite(loss):
            raise self._diverged(f'validation loss {loss}', self.epoch)
        right = (logits.argmax(-1) == y).double().mean()
        return {'val_accuracy': float(right), 'val_loss': loss}

    def _logits(self, graph: Data) -> Tensor:
        out = self.predict(self.model, graph)
        if out.dim() != 2 or out.size(0) != graph.num_nodes:
            raise ValueError(
                f'expected logits of shape [{graph.num_nodes}, C] from the '
                f"model (got {list(out.shape)}); give 'predict', for example "
                f'lambda model, data: model(data.x, data.edge_index)'
            )
        return out

    def _initialize(self) -> None:
        """Give lazy layers their shapes, which the optimizer needs."""
        if any(is_lazy(p) for p in self.model.parameters()):
            with torch.no_grad(), self._random():
                self._logits(self.graph)

    def _random(self) -> Any:
        device = self.graph.x.device
        return torch.random.fork_rng([device] if device.type == 'cuda' else [])

    def _random_states(self) -> dict[str, Tensor]:
        states = {'cpu': torch.get_rng_state()}
        device = self.graph.x.device
        if device.type == 'cuda':
            states['cuda'] = torch.cuda.get_rng_state(device)
        return states

    def _set_random_states(self, states: dict[str, Tensor]) -> None:
        torch.set_rng_state(states['cpu'])
        if 'cuda' in states:
            torch.cuda.set_rng_state(states['cuda'], self.graph.x.device)

    def _diverged(self, what: str, epoch: int) -> FloatingPointError:
        return FloatingPointError(
            f'training diverged in epoch {epoch} (got {what}, '
            f"lr={self.options.lr}); lower lr or set 'clip_norm'"
        )


def _cross_entropy(
    logits: Callable[[Data], Tensor], part: Data, mask: Tensor, y: Tensor
) -> Tensor:
    return cross_entropy(logits(part)[mask], y[mask])


def _default_predict(model: torch.nn.Module, data: Data) -> Tensor:
    out: Tensor = model(data.x, data.edge_index)
    return out


def _prefixed(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f'{name}.{key}': tensor for key, tensor in tensors.items()}


def _below(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        key.removeprefix(f'{name}.'): tensor
        for key, tensor in tensors.items()
        if key.startswith(f'{name}.')
    }


def _checked(name: str, mask: Tensor, data: Data) -> Tensor:
    num_nodes = data.x.size(0)
    if mask.dtype != torch.bool or mask.shape != (num_nodes,):
        raise ValueError(
            f'expected {name} as bool of shape [{num_nodes}] (got '
            f'{list(mask.shape)} of {mask.dtype})'
        )
    if data.y is None:
        raise ValueError("expected a graph with labels 'y' (got none)")
    mask = mask.to(data.x.device)
    y = data.y[mask]
    if y.numel() == 0 or bool((y < 0).any()):
        raise ValueError(
            f'expected labelled nodes in {name} (got {y.numel()} nodes, '
            f'{int((y < 0).sum())} of them unlabelled)'
        )
    return mask
