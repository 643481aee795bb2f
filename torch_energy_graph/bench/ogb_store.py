"""The folder of an entry: its configuration and one JSON file per seed."""

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.ogb_config import OGBConfig, as_config
from torch_energy_graph.bench.store import Row, RunFolder, write_atomic

__all__ = ['OGBFolder']

PLAN = ('command', 'config_hash', 'settings')


class OGBFolder:
    """Reads and writes the results of one entry.

    Args:
        path (str or PathLike): The folder; made when first written to.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder alone."""
        with RunFolder(self.path).lock():
            yield

    def check(self, config: OGBConfig) -> None:
        """Raise ConfigError if other settings were run here before."""
        if not (self.path / 'run.json').exists():
            return
        stored = self.read_config()
        if stored.hash != config.hash:
            raise ConfigError(
                f"'{self.path}' holds the results of other settings "
                f'({stored.hash}, now {config.hash}); choose another folder '
                f'with --out'
            )

    def start(self, config: OGBConfig, command: str) -> None:
        """Store what is run."""
        self.check(config)
        plan = {
            'schema': 1,
            'command': command,
            'config_hash': config.hash,
            'settings': dataclasses.asdict(config),
        }
        self.write('run.json', plan)

    def read_config(self) -> OGBConfig:
        """Return the stored configuration."""
        plan = self.read_plan()
        return as_config(plan['settings'], str(self.path / 'run.json'))

    def read_plan(self) -> Row:
        """Return the stored command, hash and configuration."""
        file = self.path / 'run.json'
        try:
            plan = json.loads(file.read_text('utf-8'))
            return {key: plan[key] for key in PLAN}
        except FileNotFoundError:
            raise ConfigError(
                f"'{self.path}' is not the folder of an entry (no run.json); "
                f"start one with 'teg ogb run DATASET --out {self.path}'"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"'{file}' is damaged or not of an entry; choose another "
                f'folder'
            ) from None

    def write_seed(self, row: Row) -> None:
        """Store the row of a seed."""
        self.write(f'units/seed-{row["seed"]}.json', row)

    def read_seed(self, seed: int) -> Row | None:
        """Return the row of a seed, or :obj:`None` if there is none."""
        try:
            text = (self.path / f'units/seed-{seed}.json').read_text('utf-8')
            row: Row = json.loads(text)
        except (FileNotFoundError, ValueError):
            return None
        return row

    def write(self, name: str, tree: Row) -> Path:
        """Write a JSON file of the folder, whole or not at all."""
        text = json.dumps(tree, indent=1, allow_nan=False) + '\n'
        write_atomic(self.path / name, text)
        return self.path / name
