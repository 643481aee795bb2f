"""Files that are whole or absent, and states of a training in them.

A state is a safetensors file, which holds nothing that could be executed, and
a JSON file that names it. The JSON is replaced last and atomically, so that a
reader finds the old state or the new one, whatever stops the writer.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

__all__ = [
    'load_state',
    'load_tensors',
    'save_state',
    'save_tensors',
    'write_atomic',
]

STATE = 'state.json'


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader finds the old or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f'{path.name}.{os.getpid()}.tmp')
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(temporary, 'wb') as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:  # a full disk does not say where it is
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors as safetensors; return the SHA-256 of the file."""
    # copies: a file may not hold views, nor one tensor under two names
    copies = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    data = save(copies)
    write_atomic(path, data)
    return hashlib.sha256(data).hexdigest()


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors; ValueError if the file is damaged."""
    return _unpacked(path.read_bytes(), path)


def save_state(
    folder: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]
) -> None:
    """Replace the state in a folder.

    Args:
        folder (Path): Made if absent; belongs to one training.
        tensors (Mapping): Tensors by name.
        values (Mapping): What else belongs to it, for JSON.
    """
    last = _read(folder).get('tensors')
    name = 'state-b.safetensors' if last == 'state-a.safetensors' else None
    name = name or 'state-a.safetensors'
    digest = save_tensors(folder / name, tensors)
    state = {'tensors': name, 'sha256': digest, 'values': values}
    text = json.dumps(state, indent=1, allow_nan=False) + '\n'
    write_atomic(folder / STATE, text)
    if last is not None and last != name:
        (folder / last).unlink(missing_ok=True)


def load_state(folder: Path) -> tuple[dict[str, Tensor], Any] | None:
    """Return tensors and values, or :obj:`None` if there is no state.

    Raises:
        ValueError: If a file of the state is damaged or absent.
    """
    state = _read(folder)
    if not state:
        return None
    path = folder / state['tensors']
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b''
    if hashlib.sha256(data).hexdigest() != state['sha256']:
        raise ValueError(
            f"'{path}' is absent or not the file that '{folder / STATE}' "
            f'names; start again in another folder'
        )
    return _unpacked(data, path), state['values']


def _read(folder: Path) -> dict[str, Any]:
    path = folder / STATE
    try:
        state = json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"cannot read '{path}': {error}") from error
    name = state.get('tensors') if isinstance(state, dict) else None
    if name not in ('state-a.safetensors', 'state-b.safetensors'):
        raise ValueError(f"'{path}' is no state of a training")
    return dict(state)


def _unpacked(data: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return dict(load(data))
    except SafetensorError as error:
        raise ValueError(
            f"cannot read '{path}' as safetensors: {error}"
        ) from error
