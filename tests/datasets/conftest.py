import json

import numpy as np
import pytest
from scipy.io import savemat


@pytest.fixture
def arrays():
    """A graph of 6 nodes as the arrays of an npz file."""
    fold = np.arange(6) % 3
    masks = {
        f'{name}_mask': fold == i
        for i, name in enumerate(('train', 'val', 'test'))
    }
    return {
        'x': np.arange(12, dtype=np.float32).reshape(6, 2),
        'edge_index': np.array([[0, 1, 2, 3], [1, 0, 3, 2]]),
        'y': np.array([0, 1, 0, 0, 1, 0]),
        'meta': np.array(json.dumps({'source': 'made', 'licence': 'MIT'})),
        **masks,
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder, the only one that is searched."""
    monkeypatch.delenv('TEG_DATA', raising=False)
    monkeypatch.delenv('TEG_SHARED', raising=False)
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    return tmp_path


@pytest.fixture
def save(folder):
    def write(arrays, name='tiny'):
        np.savez(folder / f'{name}.npz', **arrays)
        return folder

    return write


@pytest.fixture
def place(folder):
    """Write bytes or arrays to a file of the data folder."""

    def write(name, content):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif path.suffix == '.mat':
            savemat(path, content)
        else:
            np.savez(path, **content)
        return path

    return write
