"""Where data files are looked for."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ['NPZ_PLACES', 'data_roots', 'find_file', 'find_npz']

Root = str | os.PathLike[str] | None

NPZ_PLACES = (
    '{0}.npz',
    '{0}/raw/{0}.npz',
    'HeterophilousGraphDataset/{0}/raw/{0}.npz',
)


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
    """Path of ``name.npz``, or of the same file in PyG's raw folders.

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
    places = [place.format(name) for place in NPZ_PLACES]
    return find_file(name, places, root)


def find_file(name: str, places: Iterable[str], root: Root = None) -> Path:
    """Path of a dataset's file in the first folder that holds it.

    Args:
        name (str): Name of the dataset, for the message.
        places (iterable of str): Where the file may lie in a folder.
        root (str or Path, optional): See :func:`data_roots`.
            (default: :obj:`None`)
    """
    folders, places = data_roots(root), list(places)
    for folder in folders:
        for place in places:
            if (folder / place).is_file():
                return folder / place
    searched = ', '.join(str(folder) for folder in folders)
    raise FileNotFoundError(
        f"no dataset '{name}': {' or '.join(places)} is in none of the "
        f"folders searched ({searched}); give 'root', or set TEG_DATA to the "
        f'folder with the file'
    )
