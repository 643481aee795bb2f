"""The folder of a run: one JSON file per unit, never half of one."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torch_energy_graph.bench.coerce import ConfigError, coerce
from torch_energy_graph.bench.tuning import Search
from torch_energy_graph.train import write_atomic

__all__ = ['Pair', 'Row', 'RunFolder', 'Unit', 'write_atomic']

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Unit:
    """The smallest piece of work that is stored and resumed.

    Args:
        dataset (str): Name of the dataset.
        model (str): Name of the model.
        protocol (str): Name of the protocol.
        split (int): Index of the split.
        seed (int): Seed of the model.
        params (dict[str, Any]): All parameters of the model.
        search (Search, optional): How some of them are chosen.
            (default: :obj:`None`)
    """

    dataset: str
    model: str
    protocol: str
    split: int
    seed: int
    params: dict[str, Any]
    search: Search | None = None

    @property
    def config(self) -> str:
        """Hash of the parameters and of how they are chosen."""
        told: Any = self.params
        if self.search is not None:
            told = [self.params, dataclasses.asdict(self.search)]
        text = json.dumps(told, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def key(self) -> str:
        """Name of the unit's file; equal units have equal keys."""
        return (
            f'{self.dataset}--{self.model}--{self.protocol}--s{self.split}'
            f'--r{self.seed}--{self.config}'
        )

    @property
    def title(self) -> str:
        """The unit in words."""
        return (
            f'{self.dataset} {self.protocol} split {self.split} '
            f'seed {self.seed} {self.model}'
        )


Pair = tuple[Unit, Row | None]


class RunFolder:
    """Reads and writes the results of one run.

    Args:
        path (str or PathLike): The folder; made when first written to.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder alone; the system frees it when we die."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / '.lock', 'a+') as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                raise BlockingIOError(
                    f"'{self.path}' is in use by another runner "
                    f'({file.read().strip() or "starting"}); wait for it or '
                    f'choose another folder with --out'
                ) from None
            file.truncate(0)
            file.write(f'process {os.getpid()}')
            file.flush()
            for left_over in self.path.rglob('*.tmp'):
                left_over.unlink()
            yield

    def write_plan(self, units: list[Unit], about: Row) -> None:
        """Store what is to be run, so that it can be resumed."""
        plan = {**about, 'units': [dataclasses.asdict(u) for u in units]}
        write_atomic(self.path / 'run.json', _dump(plan))

    def read_plan(self) -> tuple[list[Unit], Row]:
        """Return the stored units and what else was stored with them."""
        file = self.path / 'run.json'
        try:
            plan = json.loads(file.read_text(encoding='utf-8'))
        except FileNotFoundError:
            raise ConfigError(
                f"'{self.path}' is not the folder of a run (no run.json); "
                f"start one with 'teg bench run CONFIG --out {self.path}'"
            ) from None
        except ValueError as error:
            raise ConfigError(f"cannot read '{file}': {error}") from error
        if not isinstance(plan, dict) or not {'name', 'command'} <= set(plan):
            raise ConfigError(f"'{file}' is damaged; start the run again")
        units = coerce(plan.pop('units', None), tuple[Unit, ...], str(file))
        return list(units), plan

    def write(self, unit: Unit, row: Row) -> None:
        """Store the row of a unit."""
        write_atomic(self._file(unit), _dump(row))

    def read(self, unit: Unit) -> Row | None:
        """Return the row of a unit, or :obj:`None` if there is none."""
        return _read(self._file(unit))

    def write_try(self, attempt: Unit, row: Row) -> None:
        """Store the row of a setting that tuning has tried."""
        write_atomic(self._file(attempt, 'tuning'), _dump(row))

    def read_try(self, attempt: Unit) -> Row | None:
        """Return the row of a setting, or :obj:`None`."""
        return _read(self._file(attempt, 'tuning'))

    def keep_masks(self, unit: Unit, masks: NDArray[np.uint8]) -> None:
        """Store the masks of a split, or check that they are the stored ones.

        Args:
            unit (Unit): A unit with this split.
            masks (ndarray): See :meth:`Split.packed`.
        """
        name = f'{unit.dataset}--{unit.protocol}--s{unit.split}.json'
        file = self.path / 'splits' / name
        text = _dump({'masks': [row.tobytes().hex() for row in masks]})
        if not file.exists():
            write_atomic(file, text)
        elif file.read_text('utf-8') != text:
            raise ValueError(
                f"split {unit.split} of '{unit.dataset}' is not the one in "
                f"'{file}': the data or the drawing of splits has changed; "
                f'choose another folder with --out'
            )

    def count_others(self, units: list[Unit]) -> int:
        """Count stored rows that belong to none of these units."""
        keys = {unit.key for unit in units}
        files = (self.path / 'units').glob('*.json')
        return sum(file.stem not in keys for file in files)

    def _file(self, unit: Unit, kind: str = 'units') -> Path:
        return self.path / kind / f'{unit.key}.json'


def _read(file: Path) -> Row | None:
    try:
        row: Row = json.loads(file.read_text('utf-8'))
    except (FileNotFoundError, ValueError):
        return None
    return row


def _dump(tree: Row) -> str:
    return json.dumps(tree, indent=1, allow_nan=False) + '\n'
