"""The networks of an ensemble: fitted one after the other, and resumed."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.losses import class_balance, weighted_bce_with_logits
from torch_energy_graph.train import FitResult, fit, load_state, save_state

__all__ = [
    'Checkpoint',
    'FitParams',
    'fingerprint',
    'fit_network',
    'members_state',
    'state_of_member',
]

Keywords = Callable[[Data], dict[str, Any]]


class FitParams(Protocol):
    """What :func:`fit_network` reads of a set of parameters."""

    @property
    def epochs(self) -> int:
        """Upper bound of the number of epochs."""

    @property
    def lr(self) -> float:
        """Learning rate of Adam."""

    @property
    def weight_decay(self) -> float:
        """L2 penalty."""

    @property
    def balance(self) -> float:
        """Power of the class weight."""

    @property
    def clip_norm(self) -> float | None:
        """Upper bound of the gradient norm."""

    @property
    def patience(self) -> int | None:
        """Evaluations without improvement before stopping."""

    @property
    def eval_every(self) -> int:
        """Epochs between two evaluations."""


def fit_network(
    model: torch.nn.Module,
    data: Data,
    train: Tensor,
    val: Tensor,
    keywords: Keywords,
    params: FitParams,
    num_parts: int | None,
    seed: int,
    whole: dict[str, Any] | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> FitResult:
    """Train one network on a graph or on its random parts.

    Args:
        model (torch.nn.Module): Gives one logit per node.
        data (Data): Graph with encoded features and labels.
        train (Tensor): Training nodes, bool :math:`[N]`.
        val (Tensor): Validation nodes, bool :math:`[N]`.
        keywords (callable): ``keywords(data)`` gives the arguments of the
            model beside the features.
        params (FitParams): How to train.
        num_parts (int, optional): Number of random parts of an epoch.
        seed (int): Seed of dropout and parts.
        whole (dict, optional): The keywords of :obj:`data`, which are made
            once if :obj:`None`. (default: :obj:`None`)
        progress (callable, optional): Called with every record of the
            history. (default: :obj:`None`)
    """
    whole = keywords(data) if whole is None else whole
    weight = class_balance(data.y[train]) ** params.balance

    def logits(model: torch.nn.Module, part: Data) -> Tensor:
        out: Tensor = model(
            part.x, **(whole if 'n_id' not in part else keywords(part))
        )
        return out.view(-1)

    return fit(
        model,
        data,
        train,
        val,
        epochs=params.epochs,
        lr=params.lr,
        weight_decay=params.weight_decay,
        patience=params.patience,
        eval_every=params.eval_every,
        clip_norm=params.clip_norm,
        num_parts=num_parts,
        pointwise=not whole,
        loss=partial(weighted_bce_with_logits, pos_weight=weight),
        predict=logits,
        seed=seed,
        progress=progress,
    )


def members_state(members: list[torch.nn.Module]) -> dict[str, Tensor]:
    """All tensors of the networks, by member and name."""
    return {
        f'{i}.{name}': tensor
        for i, member in enumerate(members)
        for name, tensor in member.state_dict().items()
    }


def state_of_member(tensors: Mapping[str, Tensor], i: int) -> dict[str, Any]:
    """The tensors of one network of :func:`members_state`."""
    prefix = f'{i}.'
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


class Checkpoint:
    """Finished networks of an ensemble, in a folder of their own.

    Args:
        folder (Path, optional): Nothing is stored if :obj:`None`.
        task (str): Fingerprint of data and settings; the folder of another
            task is refused.
    """

    def __init__(self, folder: Path | None, task: str) -> None:
        self.folder, self.task = folder, task
        self.tensors: dict[str, Tensor] = {}
        self.records: list[dict[str, Any]] = []
        state = None if folder is None else load_state(folder)
        if state is None:
            return
        self.tensors, values = state
        if values.get('task') != task:
            raise ValueError(
                f"'{folder}' holds a fit on other data or with other "
                f'settings; give another folder as checkpoint'
            )
        self.records = values['members']

    def restore(self, i: int, model: torch.nn.Module) -> FitResult | None:
        """Fill a network with its stored state, if there is one."""
        if i >= len(self.records):
            return None
        state = state_of_member(self.tensors, i)
        scores = state.pop('scores').numpy()
        model.load_state_dict(state)
        model.eval()
        return FitResult(scores=scores, **self.records[i])

    def add(self, model: torch.nn.Module, result: FitResult) -> None:
        """Store one more network."""
        if self.folder is None:
            return
        i = len(self.records)
        state = {**model.state_dict(), 'scores': torch.tensor(result.scores)}
        self.tensors |= {f'{i}.{name}': t.cpu() for name, t in state.items()}
        self.records.append(
            {
                'best_epoch': result.best_epoch,
                'history': result.history,
                'num_parameters': result.num_parameters,
            }
        )
        values = {'task': self.task, 'members': self.records}
        save_state(self.folder, self.tensors, values)


def fingerprint(data: Data, settings: Any) -> str:
    """A hash of all tensors of a graph and of settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for key in sorted(data.keys()):
        value = data[key]
        if isinstance(value, Tensor):
            digest.update(f'{key}{list(value.shape)}{value.dtype}'.encode())
            digest.update(value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
