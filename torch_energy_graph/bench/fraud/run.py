"""Training of a detector on tables with its files: ``teg train FOLDER``.

The folder of a run holds ``train.json`` (what is trained, and on which
files), ``card.json``, ``held_out.json`` (ids that neither train nor
validate), the finished networks in ``checkpoint`` and, at the end, the
detector in ``model`` and ``result.json``.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.settings import (
    check_settings,
    dump,
    read_settings,
    write_settings,
)
from torch_energy_graph.data import GraphTable, data_card
from torch_energy_graph.data.from_csv import from_folder
from torch_energy_graph.data.tables import TableLayout
from torch_energy_graph.detect import EnergyFraudDetector
from torch_energy_graph.detect.threshold import (
    target_from_dict,
    target_to_dict,
)
from torch_energy_graph.train import load_state, write_atomic

__all__ = [
    'FraudConfig',
    'FraudRun',
    'FraudTraining',
    'file_digest',
    'fraud_config',
    'is_fraud_run',
    'load_run',
    'model_folder',
    'table_files',
]

Record = dict[str, Any]
_TASK: Literal['fraud'] = 'fraud'


@dataclasses.dataclass(frozen=True)
class FraudConfig:
    """What a detector is trained on, and how.

    Args:
        tables (str): Folder of the tables.
        files (dict[str, str]): Their SHA-256, by name.
        layout (TableLayout): Which column is what.
        sep (str): What separates the cells of CSV files.
        test (float): Share of the labelled nodes that is held out.
        params (dict[str, Any]): Of the detector, ready for JSON.
    """

    tables: str
    files: dict[str, str]
    layout: TableLayout
    sep: str
    test: float
    params: dict[str, Any]
    task: Literal['fraud'] = _TASK


def fraud_config(
    tables: Path,
    layout: TableLayout,
    sep: str,
    test: float,
    detector: EnergyFraudDetector,
) -> FraudConfig:
    """The configuration of a training on a folder of tables.

    Args:
        tables (Path): The folder.
        layout (TableLayout): Which column is what.
        sep (str): What separates the cells of CSV files.
        test (float): Share to hold out, at least 0 and below 1.
        detector (EnergyFraudDetector): Holds the settings; is not fitted.
    """
    if not 0 <= test < 1:
        raise ConfigError(
            f'expected a share in [0, 1) to test on (got {test})'
        )
    params = detector.get_params()
    params['threshold'] = target_to_dict(params['threshold'])
    found = _digests(tables)
    return FraudConfig(str(tables.resolve()), found, layout, sep, test, params)


def file_digest(file: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def table_files(folder: Path) -> list[Path]:
    """The files of a folder of tables."""
    return sorted([*folder.glob('nodes.*'), *folder.glob('edges*.*')])


class FraudTraining:
    """A training that can be stopped in any way, and go on.

    Args:
        config (FraudConfig): What to train.
        folder (Path): Where its files lie; finished networks that are there
            are used if they are of the same configuration.

    Attributes:
        card: The data card of the tables.
        detector: The detector.
        num_finished: Number of networks that were there.
    """

    def __init__(self, config: FraudConfig, folder: Path) -> None:
        self.config, self.folder = config, folder
        check_settings(folder, config)
        self.table = from_folder(config.tables, config.layout, config.sep)
        self.card = data_card(self.table)
        params = dict(config.params)
        params['threshold'] = target_from_dict(params['threshold'])
        self.detector = EnergyFraudDetector(**params)
        seed = self.detector.random_state
        self.test = _held_out(self.table, config.test, seed)
        state = load_state(self._checkpoint)
        self.num_finished = 0 if state is None else len(state[1]['members'])

    def run(self, command: str, progress: Callable[[Record], None]) -> Record:
        """Fit what is left, and write the files; return the result.

        Args:
            command (str): What a user types for this training, for the
                report.
            progress (callable): Called with every record of the history; what
                it raises stops the training.
        """
        table, folder, detector = self.table, self.folder, self.detector
        write_settings(folder, self.config)
        write_atomic(folder / 'card.json', dump(self.card))
        ids = [table.node_id[i] for i in self.test.nonzero().view(-1).tolist()]
        write_atomic(folder / 'held_out.json', dump({'ids': ids}))
        train = (table.y >= 0) & ~self.test
        detector.fit(
            table, train, checkpoint=self._checkpoint, progress=progress
        )
        detector.save(folder / 'model')
        result = {
            'command': command,
            'tables': self.config.tables,
            'num_nodes': table.num_nodes,
            'num_edges': table.num_edges,
            'num_held_out': len(ids),
            'threshold': detector.threshold_,
            'validation': detector.validation_,
            'num_parts': detector.num_parts_,
            'warnings': self.card['warnings'],
            **environment(),
        }
        write_atomic(folder / 'result.json', dump(result))
        return result

    @property
    def _checkpoint(self) -> Path:
        return self.folder / 'checkpoint'


@dataclasses.dataclass(frozen=True)
class FraudRun:
    """A finished training.

    Attributes:
        config: What was trained.
        detector: The fitted detector.
        table: The tables it was fitted on.
        test: Nodes that were held out, bool [N].
        card: Their data card.
        command: What made it.
    """

    config: FraudConfig
    detector: EnergyFraudDetector
    table: GraphTable
    test: Tensor
    card: Record
    command: str


def is_fraud_run(folder: Path) -> bool:
    """Whether a folder is one of a detector on tables."""
    return (read_settings(folder) or {}).get('task') == _TASK


def model_folder(folder: Path) -> Path:
    """Where the detector of a run is; other folders are such places."""
    return folder / 'model' if is_fraud_run(folder) else folder


def load_run(folder: Path, tables: Path | None = None) -> FraudRun:
    """Read a finished training with the tables it was made of.

    Args:
        folder (Path): Folder of the run.
        tables (Path, optional): Where the tables are now; where they were if
            :obj:`None`. (default: :obj:`None`)

    Raises:
        ConfigError: If there is none, or the tables have changed.
    """
    if not is_fraud_run(folder) or not (folder / 'result.json').is_file():
        raise ConfigError(
            f"'{folder}' holds no finished training on tables; make one with "
            f"'teg train TABLES --out {folder}'"
        )
    config = _stored_config(folder)
    place = Path(config.tables) if tables is None else tables
    if _digests(place) != config.files:
        raise ConfigError(
            f"the tables in '{place}' are not those that '{folder}' was "
            f'trained on (files changed, or moved: --tables); train again'
        )
    table = from_folder(place, config.layout, config.sep)
    held_out = set(_read(folder / 'held_out.json')['ids'])
    test = torch.tensor([i in held_out for i in table.node_id])
    card = _read(folder / 'card.json')
    command = _read(folder / 'result.json')['command']
    detector = EnergyFraudDetector.load(model_folder(folder))
    return FraudRun(config, detector, table, test, card, command)


def _stored_config(folder: Path) -> FraudConfig:
    stored = dict(read_settings(folder) or {})
    try:
        layout = TableLayout.from_dict(stored.pop('layout'))
        return FraudConfig(layout=layout, **stored)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the training in '{folder}' is not of this version ({error}); "
            f'train again'
        ) from error


def _digests(folder: Path) -> dict[str, str]:
    return {file.name: file_digest(file) for file in table_files(folder)}


def _held_out(table: GraphTable, share: float, seed: int) -> Tensor:
    """Nodes to test on, stratified; the order of the rows does not matter."""
    test = torch.zeros(table.num_nodes, dtype=torch.bool)
    y = table.y.numpy()
    known = np.flatnonzero(y >= 0)
    counts = [int((y == label).sum()) for label in (0, 1)]
    if not share:
        return test
    if min(counts) * share < 1:
        raise ValueError(
            f'expected at least {math.ceil(1 / share)} labelled nodes of each '
            f'class to hold out {share:.0%} of them (got {counts[0]} normal '
            f'and {counts[1]} anomalous)'
        )
    known = np.array(sorted(known, key=lambda i: str(table.node_id[i])))
    _, drawn = train_test_split(
        known, test_size=share, random_state=seed, stratify=y[known]
    )
    test[torch.from_numpy(drawn)] = True
    return test


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding='utf-8'))
    except ValueError as error:
        raise ConfigError(f"cannot read '{file}': {error}") from error
