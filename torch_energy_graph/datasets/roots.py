"""Where data files are looked for."""

import os
import re
from pathlib import Path

__all__ = ['data_roots', 'find_npz']

Root = str | os.PathLike[str] | None


def data_roots(root: Root = None) -> list[Path]:
    """Folders that are searched, first wins.

    The argument, ``$TEG_DATA``, ``$TEG_SHARED/data`` and
    ``~/.cache/torch_energy_graph``, as far as they are given.

    Args:
        root (str or Path, optional): A folder to search before all others.
            (default: :obj:`None`)
    """
    folders = [] if root is None else [Path(root)]
    if os.environ.get('TEG_DATA'):
        folders.append(Path(os.environ['TEG_DATA']))
    if os.environ.get('TEG_SHARED'):
        folders.append(Path(os.environ['TEG_SHARED'], 'data'))
    folders.append(Path('~/.cache/torch_energy_graph'))
    return [folder.expanduser() for folder in folders]


def find_npz(name: str, root: Root = None) -> Path:
    """Path of ``name.npz`` in the first folder that holds it.

    Args:
        name (str): File name without folder and ending.
        root (str or Path, optional): See :func:`data_roots`.
            (default: :obj:`None`)
    """
    if not re.fullmatch(r'\w[\w-]*', name):
        raise ValueError(
            f'expected the name of a dataset, without folder and ending '
            f'(got {name!r})'
        )
    folders = data_roots(root)
    for folder in folders:
        path = folder / f'{name}.npz'
        if path.is_file():
            return path
    searched = ', '.join(str(folder) for folder in folders)
    raise FileNotFoundError(
        f"no dataset '{name}': {name}.npz is in none of the folders searched "
        f"({searched}); give 'root', or set TEG_DATA to the folder with the "
        f'file'
    )
