"""Graphs in uniform npz files, read without pickle."""

import json
import re
import zlib
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from torch_geometric.data import Data, InMemoryDataset

from torch_energy_graph.data import check_graph
from torch_energy_graph.datasets.heterophilous import uniform_arrays
from torch_energy_graph.datasets.roots import Root, find_npz
from torch_energy_graph.datasets.splits import Split, split_of

__all__ = ['NpzGraph']

Arrays = dict[str, NDArray[Any]]

_MASK = re.compile(r'(?:(\w+)_)?(train|val|test)_masks?')
_CSR = ('x_data', 'x_indices', 'x_indptr', 'x_shape')
_BROKEN = (
    BadZipFile,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,  # also of a compression that zipfile lacks
    ValueError,
    zlib.error,
)


class NpzGraph(InMemoryDataset):
    r"""One node-level graph from an npz file on this machine.

    Arrays of the file: features :obj:`x` :math:`[N, F]` or their CSR parts
    :obj:`x_data`, :obj:`x_indices`, :obj:`x_indptr`, :obj:`x_shape`;
    :obj:`edge_index` :math:`[2, E]` from source to target; labels :obj:`y`
    :math:`[N]`; optionally :obj:`labeled_mask` :math:`[N]` (labels outside
    become -1), :obj:`outlier_type` :math:`[N]`, masks of any number of split
    families, and :obj:`meta`, a JSON object in a string. The raw files of
    PyG's :class:`~torch_geometric.datasets.HeterophilousGraphDataset` are
    read, too, and give the same graphs.

    Args:
        name (str): File name without ending.
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)

    Attributes:
        meta: Source, licence and notes of the file.
        path: The file.
        splits: Masks (train, val, test), bool :math:`[N, S]`, by family:
            'official' for masks without prefix, else the prefix.
        task: 'anomaly' if all labels are 0, 1 or -1, else 'classification'.

    Example:
        >>> ds = NpzGraph('tolokers')  # doctest: +SKIP
        >>> train, val, test = ds.splits['official']  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        root: Root = None,
        transform: Callable[[Data], Data] | None = None,
    ) -> None:
        super().__init__(None, transform)
        self.path = find_npz(name, root)
        arrays = read_arrays(self.path)
        try:
            arrays = uniform_arrays(arrays)
            data = _to_data(arrays)
            self.splits = _splits(arrays, data.num_nodes)
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(f"bad graph in '{self.path}': {error}") from error
        self.meta = parse_meta(arrays, self.path)
        self.task = task_of(arrays)
        self._graph_name = name
        self.data, self.slices = self.collate([data])

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self._graph_name!r})'


def read_arrays(
    path: Path | BytesIO, keys: Iterable[str] | None = None
) -> Arrays:
    """Arrays of an npz file, all or those of `keys` that are there."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError('it holds a single array')
        with archive:
            names = set(archive.files)
            if keys is not None:
                names &= set(keys)
            return {name: archive[name] for name in sorted(names)}
    except (FileNotFoundError, PermissionError):
        raise
    except _BROKEN as error:
        raise ValueError(
            f"cannot read '{path}' as npz without pickle ({error}); fetch or "
            f'make the file again'
        ) from error


def parse_meta(arrays: Arrays, path: Path) -> dict[str, str]:
    """The JSON object in the array `meta`, empty if there is none."""
    text = str(arrays.get('meta', '{}'))
    try:
        meta = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"bad JSON in 'meta' of '{path}': {error}") from error
    if not isinstance(meta, dict):
        raise ValueError(f"expected a JSON object in 'meta' of '{path}'")
    return {str(key): str(value) for key, value in meta.items()}


def task_of(arrays: Arrays) -> str:
    """'anomaly' for labels 0, 1 and -1, else 'classification'."""
    binary = np.isin(arrays['y'], (-1, 0, 1)).all()
    return 'anomaly' if binary else 'classification'


def _to_data(arrays: Arrays) -> Data:
    data = Data(
        x=torch.from_numpy(features_of(arrays)),
        edge_index=_integers(arrays, 'edge_index'),
        y=_integers(arrays, 'y'),
    )
    if 'outlier_type' in arrays:
        data.outlier_type = _integers(arrays, 'outlier_type')
    for key in arrays:
        match = _MASK.fullmatch(key)
        if key == 'labeled_mask' or (match and match[1] is None):
            data[key] = torch.from_numpy(arrays[key])
    check_graph(data, binary=False)
    if 'labeled_mask' in data:
        data.y = data.y.masked_fill(~data.labeled_mask, -1)
    return data


def features_of(arrays: Arrays) -> NDArray[np.float32]:
    """The array `x`, or the dense form of its CSR parts."""
    if 'x' in arrays:
        x = arrays['x']
    elif all(key in arrays for key in _CSR):
        values, indices, indptr, shape = (arrays[key] for key in _CSR)
        if shape.shape != (2,):
            raise ValueError(
                f'expected two numbers in x_shape (got {shape.tolist()})'
            )
        if indptr[-1:].tolist() != [values.size]:  # SciPy would drop the rest
            raise ValueError(
                f'expected x_indptr to end with {values.size}, the number of '
                f'values (got {indptr[-1:].tolist()})'
            )
        csr = csr_array((values, indices, indptr), tuple(shape.tolist()))
        csr.check_format(full_check=True)
        x = csr.toarray()
    else:
        raise ValueError(
            f"expected features 'x' or {', '.join(_CSR)} (got arrays "
            f'{", ".join(sorted(arrays))})'
        )
    if not np.issubdtype(x.dtype, np.number):
        raise ValueError(f'expected numbers in x (got {x.dtype})')
    return x.astype(np.float32, copy=False)


def _integers(arrays: Arrays, key: str) -> Tensor:
    if key not in arrays:
        raise ValueError(
            f"expected an array '{key}' (got {', '.join(sorted(arrays))})"
        )
    array = arrays[key]
    if array.dtype.kind not in 'iu':
        raise ValueError(f'expected integers in {key} (got {array.dtype})')
    return torch.from_numpy(array.astype(np.int64, copy=False))


def _splits(arrays: Arrays, num_nodes: int) -> dict[str, Split]:
    families: dict[str, dict[str, Tensor]] = {}
    for key, array in arrays.items():
        match = _MASK.fullmatch(key)
        if match is None:
            continue
        good = array.ndim in (1, 2) and len(array) == num_nodes
        if array.dtype != bool or not good:
            raise ValueError(
                f'expected {key} as bool of shape [{num_nodes}] or '
                f'[{num_nodes}, S] (got {list(array.shape)} of {array.dtype})'
            )
        mask = torch.from_numpy(array if array.ndim == 2 else array[:, None])
        families.setdefault(match[1] or 'official', {})[match[2]] = mask
    return {name: split_of(name, part) for name, part in families.items()}
