"""One seed of a leaderboard entry: trained, selected on validation, scored."""

import copy
import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.measure import memory_mib, reset_peak_memory
from torch_energy_graph.bench.ogb_config import OGBConfig
from torch_energy_graph.bench.ogb_data import OGBTask
from torch_energy_graph.loader import RandomPartitionLoader
from torch_energy_graph.train import EarlyStopping, seed_everything

__all__ = ['Trainer']

Record = dict[str, Any]


class _Input(NamedTuple):
    """What a model reads: features and its own form of the edges."""

    x: Tensor  # [n, C]
    edges: Any
    n_id: Tensor | slice = slice(None)


class Trainer:
    """Trains the seeds of an entry.

    Labels are read at three places: those of training nodes by the loss,
    those of validation nodes to choose the epoch, and all of them once, for
    the final metrics of the chosen epoch.

    Args:
        task (OGBTask): The dataset.
        config (OGBConfig): Model and training.
        device (str, optional): Where to train. (default: :obj:`'cpu'`)
        eval_device (str, optional): Where to evaluate the full graph, which
            takes more memory than a part of it; as ``device`` if
            :obj:`None`. (default: :obj:`None`)
    """

    def __init__(
        self,
        task: OGBTask,
        config: OGBConfig,
        device: str = 'cpu',
        eval_device: str | None = None,
    ) -> None:
        self.task, self.config = task, config
        self.device = torch.device(device)
        self.eval_device = torch.device(eval_device or device)
        # the edges are sorted once for all seeds
        self.whole = self._placed(task.graph, self.eval_device)
        mask = torch.zeros(task.y.size(0), dtype=torch.bool)
        mask[task.split['train']] = True
        self.train_mask = mask  # [N]

    @functools.cached_property
    def full(self) -> _Input:
        """The full graph on the training device."""
        if self.device == self.eval_device:
            return self.whole
        return self._placed(self.task.graph, self.device)

    def build(self) -> torch.nn.Module:
        """Return the model with new weights, on the training device."""
        model: torch.nn.Module = self.config.params.build(
            self.task.graph.num_features, self.task.out_channels
        )
        return model.to(self.device)

    def train(
        self, seed: int, progress: Callable[[Record], None] | None = None
    ) -> Record:
        """Train one seed.

        Args:
            seed (int): Seed of weights, dropout and parts.
            progress (callable, optional): Called after every epoch with its
                record: epoch, loss and, if evaluated, valid.
                (default: :obj:`None`)

        Returns:
            dict: best_epoch, last_epoch, train, valid, test, num_params,
            seconds, peak memory, share of edges kept and history.

        Raises:
            FloatingPointError: If the loss or a logit is no longer finite.
        """
        resettable = reset_peak_memory()
        on_gpu = self.device.type == 'cuda'
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)
        start = time.perf_counter()
        result = self._train(seed, progress)
        return {
            **result,
            'seconds': round(time.perf_counter() - start, 3),
            'peak_mem_mb': memory_mib('VmHWM') if resettable else None,
            'peak_gpu_mem_mb': round(
                torch.cuda.max_memory_allocated(self.device) / 2**20, 1
            )
            if on_gpu
            else None,
        }

    def _train(
        self, seed: int, progress: Callable[[Record], None] | None
    ) -> Record:
        settings = self.config.training
        seed_everything(seed)
        model = self.build()
        optimizer = torch.optim.Adam(
            model.parameters(),
            lr=settings.lr,
            weight_decay=settings.weight_decay,
        )
        parts = self._loader(seed)
        stopper = EarlyStopping(settings.patience)
        history: list[Record] = []
        best, best_epoch = torch.empty(0), 0
        for epoch in range(1, settings.epochs + 1):
            loss = self._epoch(model, optimizer, parts, epoch)
            record: Record = {'epoch': epoch, 'loss': loss}
            history.append(record)
            if epoch % settings.eval_every == 0 or epoch == settings.epochs:
                prediction = self.predict(model, epoch)
                record['valid'] = self._score(prediction, 'valid')
                if stopper.step(record['valid']):
                    best, best_epoch = prediction, epoch
            if progress is not None:
                progress(record)
            if stopper.should_stop:
                break
        return {
            'seed': seed,
            'best_epoch': best_epoch,
            'last_epoch': history[-1]['epoch'],
            **{part: self._score(best, part) for part in self.task.split},
            'num_params': sum(p.numel() for p in model.parameters()),
            'edge_share': 1.0 if parts is None else parts.edge_share,
            'history': history,
        }

    def _loader(self, seed: int) -> RandomPartitionLoader | None:
        """Return random parts, or nothing where the full graph is used."""
        size = self.config.training.part_size
        num_nodes = self.task.y.size(0)
        if size is None or size >= num_nodes:
            return None
        return RandomPartitionLoader(
            self.task.graph,
            math.ceil(num_nodes / size),
            generator=torch.Generator().manual_seed(seed),
        )

    def _inputs(self, parts: RandomPartitionLoader | None) -> Iterator[_Input]:
        """Yield what one epoch trains on."""
        if parts is None:
            yield self.full
            return
        for part in parts:
            if self.train_mask[part.n_id].any():
                yield self._placed(part, self.device, part.n_id)

    def _epoch(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        parts: RandomPartitionLoader | None,
        epoch: int,
    ) -> float:
        """Return the mean loss over the training nodes."""
        model.train()
        total = 0.0
        for x, edges, n_id in self._inputs(parts):
            mask, y = self.train_mask[n_id], self.task.y[n_id]
            y = y[mask].to(self.device)
            optimizer.zero_grad()
            logits = model(x, edges)[mask.to(self.device)]
            loss = self.task.loss(logits, y)
            value = loss.item()
            if not math.isfinite(value):
                raise _diverged(f'loss {value}', epoch)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += value * y.size(0)
        return total / int(self.train_mask.sum())

    @torch.no_grad()
    def predict(self, model: torch.nn.Module, epoch: int) -> Tensor:
        """Return what the Evaluator scores, of all nodes, on the CPU.

        One pass over the full graph. Without gradients a layer's state goes
        when the next is made, and edges are multiplied as a sparse matrix:
        memory is a few times nodes by channels, never edges by channels.
        """
        if self.eval_device != self.device:
            model = copy.deepcopy(model).to(self.eval_device)
        model.eval()
        logits = model(self.whole.x, self.whole.edges)  # [N, K]
        bad = int((~logits.isfinite()).sum())
        if bad:
            raise _diverged(f'{bad} logits that are not finite', epoch)
        return self.task.predict(logits).cpu()

    def _score(self, prediction: Tensor, part: str) -> float:
        index = self.task.split[part]
        return self.task.score(self.task.y[index], prediction[index])

    def _placed(
        self,
        graph: Data,
        device: torch.device,
        n_id: Tensor | slice = slice(None),
    ) -> _Input:
        edges = self.config.params.edges(graph)
        return _Input(graph.x.to(device), edges.to(device), n_id)


def _diverged(what: str, epoch: int) -> FloatingPointError:
    return FloatingPointError(
        f'training diverged in epoch {epoch} (got {what}); lower training.lr'
    )
