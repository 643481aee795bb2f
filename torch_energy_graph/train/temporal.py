"""Training a forecaster of node signals on windows, without a broadcast."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric.data import Batch, Data

from torch_energy_graph.train.early_stopping import EarlyStopping

__all__ = ['TemporalFit', 'fit_forecaster', 'forecast', 'mean_squared_error']

Windows = Sequence[Data]
Loss = Callable[[Tensor, Tensor], Tensor]
Record = dict[str, Any]
_RECORD = ('epoch', 'loss', 'val_loss')


def mean_squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    r"""Mean of :math:`(\hat y - y)^2` over tensors of one shape.

    Raises:
        ValueError: If the shapes differ. Subtracting :math:`[N]` from
            :math:`[N, 1]` would silently give all :math:`N^2` pairs, whose
            best prediction is one value for all nodes.
    """
    if prediction.shape != target.shape:
        raise ValueError(
            f'expected a prediction of the shape of its target '
            f'{list(target.shape)} (got {list(prediction.shape)}); a model '
            f'with one output channel needs .squeeze(-1)'
        )
    return (prediction - target).square().mean()


@dataclass(frozen=True)
class TemporalFit:
    """What :func:`fit_forecaster` found.

    Attributes:
        best_epoch: The epoch of the restored state, counted from 1.
        best_loss: Its validation loss.
        history: One record per epoch: epoch, loss, val_loss.
    """

    best_epoch: int
    best_loss: float
    history: list[Record]


def fit_forecaster(
    model: torch.nn.Module,
    train: Windows,
    val: Windows,
    *,
    epochs: int = 200,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    patience: int | None = None,
    loss: Loss = mean_squared_error,
    seed: int = 0,
    progress: Callable[[Record], None] | None = None,
) -> TemporalFit:
    r"""Train with Adam on all windows at once; keep the best epoch.

    The best is that of the least validation loss. All windows are one batch
    of graphs, and each is forecast as it would be alone. The global random
    state is put back at the end.

    Args:
        model (torch.nn.Module): Trained in place; ends in its best state.
            Called as :class:`~torch_energy_graph.nn.models.TemporalDIFFormer`
            with :obj:`(x, edge_index, edge_weight, batch, batch_size)`.
        train (list): Training windows, see
            :func:`~torch_energy_graph.datasets.sliding_windows`, on the
            device of the model.
        val (list): Validation windows.
        epochs (int, optional): Largest number of steps.
            (default: :obj:`200`)
        lr (float, optional): Learning rate. (default: :obj:`0.01`)
        weight_decay (float, optional): L2 penalty. (default: :obj:`0.0`)
        patience (int, optional): Epochs without improvement before stopping.
            (default: :obj:`None`)
        loss (callable, optional): :obj:`loss(prediction, target)` of tensors
            :math:`[W, N]`. (default: :func:`mean_squared_error`)
        seed (int, optional): Seed of dropout; the weights are drawn before,
            by the caller. (default: :obj:`0`)
        progress (callable, optional): Called with every history record.
            (default: :obj:`None`)

    Raises:
        FloatingPointError: If a loss is no longer finite; the model is left
            in its best state so far.
    """
    if epochs < 1:
        raise ValueError(f"expected 'epochs' >= 1 (got {epochs})")
    parts = _Part(train), _Part(val)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=lr, weight_decay=weight_decay
    )
    stopper = EarlyStopping(patience, 'min')
    state, best_epoch = copy.deepcopy(model.state_dict()), 0
    history: list[Record] = []
    device = train[0].x.device
    with torch.random.fork_rng([device] if device.type == 'cuda' else []):
        torch.manual_seed(seed)
        try:
            for epoch in range(1, epochs + 1):
                values = _epoch(model, optimizer, loss, *parts)
                if not math.isfinite(sum(values)):
                    raise FloatingPointError(
                        f'training diverged in epoch {epoch} (got loss '
                        f'{values[0]} and {values[1]} on validation, '
                        f'lr={lr}); lower lr or scale the signal'
                    )
                record = dict(zip(_RECORD, (epoch, *values), strict=True))
                history.append(record)
                if stopper.step(values[1]):
                    state = copy.deepcopy(model.state_dict())
                    best_epoch = epoch
                if progress is not None:
                    progress(record)
                if stopper.should_stop:
                    break
        finally:
            model.load_state_dict(state)
            model.eval()
    return TemporalFit(best_epoch, stopper.best, history)


@torch.no_grad()
def forecast(model: torch.nn.Module, windows: Windows) -> Tensor:
    r"""Predictions of a model in eval mode, :math:`[W, N]`."""
    training = model.training
    model.eval()
    try:
        return _Part(windows).predict(model)
    finally:
        model.train(training)


def _epoch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Loss,
    train: '_Part',
    val: '_Part',
) -> tuple[float, float]:
    """One step; its loss, and the validation loss after it."""
    model.train()
    optimizer.zero_grad()
    value = train.measure(model, loss)
    value.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    model.eval()
    with torch.no_grad():
        val_value = val.measure(model, loss)
    return value.item(), val_value.item()


class _Part:
    """Windows of the same nodes as one batch of graphs."""

    def __init__(self, windows: Windows) -> None:
        sizes = {data.x.size(0) for data in windows}
        if len(sizes) != 1:
            raise ValueError(
                f'expected windows over the same nodes, at least one (got '
                f'{len(windows)} windows of {sorted(sizes)} nodes)'
            )
        self.batch = Batch.from_data_list(list(windows))
        self.shape = (len(windows), sizes.pop())

    def predict(self, model: torch.nn.Module) -> Tensor:
        """Predictions [W, N]."""
        data = self.batch
        out: Tensor = model(
            data.x,
            data.edge_index,
            data.edge_weight,
            data.batch,
            data.num_graphs,
        )
        if out.shape != data.y.shape:
            raise ValueError(
                f'expected one prediction per node, of shape '
                f'{list(data.y.shape)} (got {list(out.shape)}); a model with '
                f'one output channel needs .squeeze(-1)'
            )
        return out.view(self.shape)

    def measure(self, model: torch.nn.Module, loss: Loss) -> Tensor:
        """The loss on all windows."""
        return loss(self.predict(model), self.batch.y.view(self.shape))
