"""One explicit training loop: selection on validation, test never touched."""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.parameter import is_lazy

from torch_geometric.data import Data

from torch_energy_graph.data import check_graph
from torch_energy_graph.loader import RandomPartitionLoader
from torch_energy_graph.losses import class_balance, weighted_bce_with_logits
from torch_energy_graph.metrics import auprc, auroc
from torch_energy_graph.train.early_stopping import EarlyStopping

__all__ = ['FitResult', 'fit']

Predict = Callable[[torch.nn.Module, Data], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
Record = dict[str, Any]


@dataclass(frozen=True)
class FitResult:
    """What :func:`fit` found.

    Attributes:
        scores: Probabilities of an anomaly of all nodes at the best epoch,
            float64, :math:`[N]`.
        best_epoch: The epoch of the restored state, counted from 1.
        history: One record per evaluation: epoch, loss, val_auprc, val_auroc.
        num_parameters: Number of trained parameters.
    """

    scores: NDArray[np.float64]
    best_epoch: int
    history: list[Record]
    num_parameters: int


def fit(
    model: torch.nn.Module,
    data: Data,
    train_mask: Tensor,
    val_mask: Tensor,
    *,
    epochs: int,
    lr: float,
    weight_decay: float = 0.0,
    patience: int | None = None,
    eval_every: int = 1,
    clip_norm: float | None = None,
    num_parts: int | None = None,
    pointwise: bool = False,
    loss: Loss | None = None,
    predict: Predict | None = None,
    seed: int = 0,
    progress: Callable[[Record], None] | None = None,
) -> FitResult:
    r"""Train with Adam and keep the state with the best validation AUPRC.

    Evaluation always sees the full graph, in eval mode. Labels outside the
    two masks are never read, and :obj:`predict` gets the graph without
    labels. The global random state is put back at the end.

    Args:
        model (torch.nn.Module): Trained in place; ends in its best state.
        data (Data): Graph with :obj:`x`, :obj:`edge_index` and :obj:`y`, on
            the device of the model.
        train_mask (Tensor): Training nodes, bool :math:`[N]`.
        val_mask (Tensor): Validation nodes, bool :math:`[N]`.
        epochs (int): Number of passes over the training nodes.
        lr (float): Learning rate.
        weight_decay (float, optional): L2 penalty. (default: :obj:`0.0`)
        patience (int, optional): Evaluations without improvement before
            stopping. (default: :obj:`None`)
        eval_every (int, optional): Epochs between two evaluations; the last
            epoch is always evaluated. (default: :obj:`1`)
        clip_norm (float, optional): Upper bound of the gradient norm.
            (default: :obj:`None`)
        num_parts (int, optional): Train on that many random disjoint parts
            (:class:`~torch_energy_graph.loader.RandomPartitionLoader`)
            instead of the full graph. (default: :obj:`None`)
        pointwise (bool, optional): The model reads no edges, so that only
            training nodes are trained on. (default: :obj:`False`)
        loss (callable, optional): :obj:`loss(logits, y)` of training nodes;
            if :obj:`None`, binary cross-entropy weighted by benign over
            anomalous training nodes. (default: :obj:`None`)
        predict (callable, optional): :obj:`predict(model, data)` giving
            logits :math:`[N]`; if :obj:`None`,
            :obj:`model(data.x, data.edge_index)`. (default: :obj:`None`)
        seed (int, optional): Seed of dropout and parts; the weights are
            drawn before, by the caller. (default: :obj:`0`)
        progress (callable, optional): Called with every history record.
            (default: :obj:`None`)

    Returns:
        FitResult: Scores, best epoch, history and size.

    Raises:
        FloatingPointError: If the loss or a score is no longer finite; the
            model is left in its best state so far.
    """
    task = _Task(model, data, train_mask, val_mask, loss, predict)
    if epochs < 1 or eval_every < 1:
        raise ValueError(
            f"expected 'epochs' and 'eval_every' >= 1 (got {epochs} and "
            f'{eval_every})'
        )
    device = data.x.device
    with torch.random.fork_rng([device] if device.type == 'cuda' else []):
        torch.manual_seed(seed)
        task.initialize()
        optimizer = torch.optim.Adam(
            model.parameters(), lr=lr, weight_decay=weight_decay
        )
        parts = task.parts(num_parts, pointwise, seed)
        stopper = EarlyStopping(patience)
        best = _Best(copy.deepcopy(model.state_dict()))
        history: list[Record] = []
        try:
            for epoch in range(1, epochs + 1):
                value = task.train_epoch(parts, optimizer, clip_norm, epoch)
                if epoch % eval_every and epoch != epochs:
                    continue
                scores, measures = task.evaluate(epoch, lr)
                history.append({'epoch': epoch, 'loss': value, **measures})
                if stopper.step(measures['val_auprc']):
                    best.state = copy.deepcopy(model.state_dict())
                    best.scores, best.epoch = scores, epoch
                if progress is not None:
                    progress(history[-1])
                if stopper.should_stop:
                    break
        finally:
            model.load_state_dict(best.state)
            model.eval()
    size = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return FitResult(best.scores, best.epoch, history, size)


@dataclass
class _Best:
    state: dict[str, Any]
    scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    epoch: int = 0


class _Task:
    """A checked node task: one epoch, one evaluation."""

    def __init__(
        self,
        model: torch.nn.Module,
        data: Data,
        train_mask: Tensor,
        val_mask: Tensor,
        loss: Loss | None,
        predict: Predict | None,
    ) -> None:
        check_graph(data, binary=False)
        self.train_mask = _check_mask('train_mask', train_mask, data)
        self.val_mask = _check_mask('val_mask', val_mask, data)
        if bool((self.train_mask & self.val_mask).any()):
            raise ValueError('expected disjoint train_mask and val_mask')
        omega = class_balance(data.y[self.train_mask])
        self.loss = loss or partial(weighted_bce_with_logits, pos_weight=omega)
        self.model = model
        self.predict = predict or _default_predict
        self.y = data.y
        self.graph = copy.copy(data)
        del self.graph.y

    def initialize(self) -> None:
        """Give lazy layers their shapes, which the optimizer needs."""
        if any(is_lazy(p) for p in self.model.parameters()):
            with torch.no_grad():
                self.logits(self.graph)

    def parts(
        self, num_parts: int | None, pointwise: bool, seed: int
    ) -> Iterable[Data]:
        """What an epoch goes through."""
        graph = self.graph
        if pointwise:
            graph = graph.subgraph(self.train_mask)
            graph.origin = self.train_mask.nonzero().view(-1)
        if num_parts is None:
            return [graph]
        gen = torch.Generator().manual_seed(seed)
        return RandomPartitionLoader(graph, num_parts, generator=gen)

    def logits(self, graph: Data) -> Tensor:
        out = self.predict(self.model, graph)  # [N]
        if out.shape != (graph.num_nodes,):
            raise ValueError(
                f'expected logits of shape [{graph.num_nodes}] from the model '
                f"(got {list(out.shape)}); give 'predict', for example "
                f'lambda model, data: model(data.x, data.edge_index)[:, 0]'
            )
        return out

    def train_epoch(
        self,
        parts: Iterable[Data],
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        epoch: int,
    ) -> float:
        """Mean loss over the training nodes of all parts."""
        self.model.train()
        total = 0.0
        for part in parts:
            n_id = part.get('origin', part.get('n_id', slice(None)))
            mask, y = self.train_mask[n_id], self.y[n_id]
            count = int(mask.sum())
            if count == 0:
                continue
            optimizer.zero_grad()
            loss = self.loss(self.logits(part)[mask], y[mask])
            value = loss.item()
            if not math.isfinite(value):
                lr = optimizer.param_groups[0]['lr']
                raise self._diverged(f'loss {value}', epoch, lr)
            loss.backward()  # type: ignore[no-untyped-call]
            if clip_norm is not None:
                parameters = self.model.parameters()
                torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
            optimizer.step()
            total += value * count
        return total / int(self.train_mask.sum())

    @torch.no_grad()
    def evaluate(
        self, epoch: int, lr: float
    ) -> tuple[NDArray[np.float64], Record]:
        """Probabilities of all nodes and measures of the validation nodes."""
        self.model.eval()
        prob = self.logits(self.graph).double().sigmoid()  # [N]
        bad = int((~torch.isfinite(prob)).sum())
        if bad:
            raise self._diverged(f'{bad} scores that are NaN', epoch, lr)
        y = self.y[self.val_mask].cpu().numpy()
        score = prob[self.val_mask].cpu().numpy()
        measures = {'val_auprc': auprc(y, score), 'val_auroc': auroc(y, score)}
        return prob.cpu().numpy(), measures

    def _diverged(
        self, what: str, epoch: int, lr: float
    ) -> FloatingPointError:
        steps = {
            str(module.step_size)
            for module in self.model.modules()
            if isinstance(getattr(module, 'step_size', None), float | str)
        }
        also = f', step_size={"/".join(sorted(steps))}' if steps else ''
        return FloatingPointError(
            f'training diverged in epoch {epoch} (got {what}, lr={lr}{also}); '
            f"lower lr or step_size, or set 'clip_norm'"
        )


def _default_predict(model: torch.nn.Module, data: Data) -> Tensor:
    out: Tensor = model(data.x, data.edge_index)
    return out


def _check_mask(name: str, mask: Tensor, data: Data) -> Tensor:
    num_nodes = data.x.size(0)
    if mask.dtype != torch.bool or mask.shape != (num_nodes,):
        raise ValueError(
            f'expected {name} as bool of shape [{num_nodes}] (got '
            f'{list(mask.shape)} of {mask.dtype})'
        )
    mask = mask.to(data.x.device)
    if data.y is None:
        raise ValueError("expected a graph with labels 'y' (got none)")
    y = data.y[mask]
    labeled = data.get('labeled_mask')
    unlabeled = (y != 0) & (y != 1)
    if labeled is not None:
        unlabeled = unlabeled | ~labeled[mask]
    if bool(unlabeled.any()):
        raise ValueError(
            f'expected labels 0 or 1 at all nodes of {name} (got '
            f'{int(unlabeled.sum())} unlabelled nodes)'
        )
    if bool((y == 0).all()) or bool((y == 1).all()):
        raise ValueError(
            f'expected normal and anomalous nodes in {name} (got '
            f'{int((y == 0).sum())} and {int((y == 1).sum())}); draw it '
            f'stratified by label'
        )
    return mask
