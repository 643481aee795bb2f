"""The file that says what a folder of a training is about."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.train import write_atomic

__all__ = ['check_settings', 'dump', 'read_settings', 'write_settings']

FILE = 'train.json'


def write_settings(folder: Path, config: Any) -> None:
    """Store the configuration, a dataclass, of a training."""
    write_atomic(folder / FILE, dump(dataclasses.asdict(config)))


def read_settings(folder: Path) -> dict[str, Any] | None:
    """Return what is stored, or :obj:`None` if nothing is.

    Raises:
        ConfigError: If the file is damaged.
    """
    file = folder / FILE
    try:
        stored = json.loads(file.read_text(encoding='utf-8'))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigError(f"cannot read '{file}': {error}") from error
    if not isinstance(stored, dict):
        raise ConfigError(f"'{file}' does not hold settings")
    return stored


def check_settings(
    folder: Path, config: Any, absent: dict[str, Any] | None = None
) -> None:
    """Refuse the folder of another training.

    Args:
        folder (Path): May be absent.
        config (Any): The configuration, a dataclass.
        absent (dict, optional): Values of keys that older files do not have.
            (default: :obj:`None`)

    Raises:
        ConfigError: With the keys that differ.
    """
    stored = read_settings(folder)
    if stored is None:
        return
    stored = {**(absent or {}), **stored}
    wanted = json.loads(dump(dataclasses.asdict(config)))
    changed = sorted(
        key for key in {*stored, *wanted} if stored.get(key) != wanted.get(key)
    )
    if changed:
        raise ConfigError(
            f"'{folder}' holds a training with other settings "
            f'({", ".join(changed)}); choose another folder with --out'
        )


def dump(tree: dict[str, Any]) -> str:
    """Return JSON as all files of a training hold it."""
    return json.dumps(tree, indent=1, allow_nan=False) + '\n'
