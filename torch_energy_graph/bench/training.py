"""One model on one split, with its files: what ``teg train`` does.

The folder of a training holds ``train.json`` (what is trained), the last
state (see :mod:`torch_energy_graph.train.checkpoint`), ``history.csv`` and,
at the end, ``model.safetensors`` and ``result.json``.
"""

import csv
import dataclasses
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from torch_geometric.data import Data

from torch_energy_graph.bench.class_networks import get_class_network
from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.config import NAME, read_tree, typed
from torch_energy_graph.bench.evaluation import visible
from torch_energy_graph.bench.goal import CLASSES
from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.objective import LossConfig, objective_of
from torch_energy_graph.bench.protocol import get_protocol
from torch_energy_graph.bench.registry import (
    load_task,
    model_parameters,
    require_dataset,
    require_goal,
)
from torch_energy_graph.bench.settings import (
    check_settings,
    dump,
    write_settings,
)
from torch_energy_graph.bench.split import Split
from torch_energy_graph.ood import LabelShift
from torch_energy_graph.train import (
    ClassifierTrainer,
    load_state,
    save_state,
    save_tensors,
    write_atomic,
)

__all__ = ['TrainConfig', 'Training', 'load_train_config']

Record = dict[str, Any]
COLUMNS = ('epoch', 'loss', 'val_accuracy', 'val_loss')


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """One model on one split of one dataset.

    Args:
        task (str): What is trained; 'classification' of nodes.
        name (str): Name of the training; its files lie in ``runs/<name>``
            unless told otherwise.
        dataset (str): Name of a dataset.
        protocol (str): Name of a protocol for classes.
        model (str): Name of a classifier.
        params (dict[str, Any], optional): Its parameters.
            (default: :obj:`None`)
        split (int, optional): Index of the split. (default: :obj:`0`)
        seed (int, optional): Seed of weights and dropout.
            (default: :obj:`0`)
        save_every (int, optional): Epochs between two saved states.
            (default: :obj:`50`)
        loss (LossConfig, optional): What is minimised; the cross-entropy if
            :obj:`None`. (default: :obj:`None`)
        leave_out (tuple[int, ...], optional): Classes whose nodes stay in
            the graph without a label, see
            :class:`~torch_energy_graph.ood.LabelShift`.
            (default: :obj:`()`)
    """

    task: Literal['classification']
    name: str
    dataset: str
    protocol: str
    model: str
    params: dict[str, Any] | None = None
    split: int = 0
    seed: int = 0
    save_every: int = 50
    loss: LossConfig | None = None
    leave_out: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.name) is None:
            raise ConfigError(
                "'name': expected letters, digits, '_' and '.' "
                f"(got '{self.name}')"
            )
        if self.split < 0 or self.save_every < 1:
            raise ConfigError(
                f"expected 'split' >= 0 and 'save_every' >= 1 (got "
                f'{self.split} and {self.save_every})'
            )


def load_train_config(
    path: str | os.PathLike[str], overrides: Sequence[str] = ()
) -> TrainConfig:
    """Read the configuration of a training and check its names.

    Args:
        path (str or PathLike): A YAML file.
        overrides (sequence of str, optional): ``a.b=c`` each.
            (default: :obj:`()`)

    Raises:
        ConfigError: With file, key and what was expected.
    """
    config: TrainConfig = typed(read_tree(path, overrides), TrainConfig, path)
    if get_protocol(config.protocol).goal is not CLASSES:
        raise ConfigError(
            f"{path}: protocol '{config.protocol}' is not about classes; use "
            f"one that is, such as 'public'"
        )
    require_goal(config.model, CLASSES, config.protocol)
    require_dataset(config.dataset)
    params = model_parameters(
        config.model, config.params or {}, f'{path}.params'
    )
    return dataclasses.replace(config, params=params)


class Training:
    """A training that can be interrupted after any epoch and go on.

    Args:
        config (TrainConfig): What to train, with all parameters.
        folder (Path): Where its files lie; a state that is there is resumed
            if it is of the same configuration.
    """

    def __init__(self, config: TrainConfig, folder: Path) -> None:
        self.config, self.folder = config, folder
        check_settings(folder, config, {'loss': None, 'leave_out': []})
        self.network = get_class_network(config.model)
        self.data, self.split = _graph_and_split(config)
        self.y = self.data.y.cpu().numpy()
        self.params = self.network.params(**(config.params or {}))
        objective = None if config.loss is None else objective_of(config.loss)
        self.trainer: ClassifierTrainer = self.network.trainer(
            visible(self.data, self.split),
            self.split,
            config.seed,
            self.params,
            objective,
        )
        self.max_epochs = self.params.epochs
        self.seconds = 0.0
        state = load_state(folder)
        if state is not None:
            self.trainer.load(*state)
            self.seconds = state[1]['seconds']
        self.resumed_at = self.trainer.epoch

    def run(
        self,
        progress: Callable[[Record | None], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Record | None:
        """Train what is left; return the result, or None if stopped.

        Args:
            progress (callable, optional): Called after every epoch, with its
                record if it was evaluated. (default: :obj:`None`)
            stop (callable, optional): Asked after every epoch; the state is
                saved then. (default: never)
        """
        result = self.folder / 'result.json'
        if self.trainer.finished and result.exists():
            row: Record = json.loads(result.read_text(encoding='utf-8'))
            return row
        if self.trainer.epoch == 0:
            write_settings(self.folder, self.config)
        while not self.trainer.finished:
            start = time.perf_counter()
            record = self.trainer.run_epoch()
            self.seconds += time.perf_counter() - start
            if progress is not None:
                progress(record)
            stopped = stop()
            if stopped or self.trainer.epoch % self.config.save_every == 0:
                self.save()
            if stopped:
                return None
        self.save()
        return self._finish()

    def save(self) -> None:
        """Write state and history."""
        tensors, values = self.trainer.state()
        save_state(self.folder, tensors, {**values, 'seconds': self.seconds})
        file = io.StringIO()
        writer = csv.DictWriter(file, COLUMNS, lineterminator='\n')
        writer.writeheader()
        writer.writerows(self.trainer.history)
        write_atomic(self.folder / 'history.csv', file.getvalue())

    def _finish(self) -> Record:
        result = self.trainer.finish()
        scores = np.asarray(result.scores)
        CLASSES.check(scores, self.config.model, len(self.y))
        split = self.split
        row = {
            **dataclasses.asdict(self.config),
            **CLASSES.measure(self.y, scores, split.val, split.test),
            'split_masks': split.fingerprint(),
            'best_epoch': result.best_epoch,
            'last_epoch': self.trainer.epoch,
            'num_parameters': result.num_parameters,
            'seconds': round(self.seconds, 3),
            **environment(),
        }
        weights = self.trainer.model.state_dict()
        save_tensors(self.folder / 'model.safetensors', weights)
        write_atomic(self.folder / 'result.json', dump(row))
        return row


def _graph_and_split(config: TrainConfig) -> tuple[Data, Split]:
    """Return the graph and the split, without the classes left out."""
    task = load_task(config.dataset)
    split: Split = get_protocol(config.protocol).split(task, config.split)
    if not config.leave_out:
        return task.data, split
    data: Data = LabelShift(config.leave_out)(task.data)
    known = data.y >= 0
    return data, dataclasses.replace(
        split,
        train=split.train & known,
        val=split.val & known,
        test=split.test & known,
        classes=int(data.y.max()) + 1,
    )
