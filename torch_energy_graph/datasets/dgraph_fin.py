"""Users who do not pay back loans."""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.datasets.npz_graph import read_arrays
from torch_energy_graph.datasets.roots import Root, find_file
from torch_energy_graph.datasets.stored_graph import StoredGraph, Transform

__all__ = ['DGraphFin']

_MEMBER = 'dgraphfin.npz'
_MASKS = {'train': 'train_mask', 'val': 'valid_mask', 'test': 'test_mask'}
_KEYS = ('x', 'y', 'edge_index', 'edge_type', 'edge_timestamp')


class DGraphFin(StoredGraph):
    r"""Users of a lender, connected to their emergency contacts.

    ``DGraphFin.zip`` or the ``dgraphfin.npz`` in it, from `"DGraph: A
    Large-Scale Financial Dataset for Graph Anomaly Detection"
    <https://arxiv.org/abs/2207.03579>`_: the raw file of PyG's
    :class:`~torch_geometric.datasets.DGraphFin`, with the same features,
    edges, :obj:`edge_type` and :obj:`edge_time`. Background users (labels 2
    and 3) are -1.

    Args:
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)

    Attributes:
        splits: Masks of the family 'official'.

    **STATS (published):** 3,700,550 nodes, 4,300,999 directed edges, 17
    features.
    """

    places: ClassVar[tuple[str, ...]] = tuple(
        f'{folder}{name}'
        for folder in ('', 'raw/', 'DGraphFin/', 'DGraphFin/raw/')
        for name in (_MEMBER, 'DGraphFin.zip')
    )

    def __init__(self, root: Root = None, transform: Transform = None) -> None:
        path = find_file('dgraphfin', self.places, root)
        arrays = _read(path)
        try:
            data, masks = _to_data(arrays)
        except (IndexError, ValueError) as error:
            raise ValueError(f"bad graph in '{path}': {error}") from error
        super().__init__(path, data, {'official': masks}, transform)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    if path.suffix == '.npz':
        return read_arrays(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return read_arrays(BytesIO(archive.read(_MEMBER)))
    except (KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"expected '{_MEMBER}' in '{path}' ({error}); fetch the file again"
        ) from error


def _to_data(
    arrays: dict[str, NDArray[Any]],
) -> tuple[Data, dict[str, Tensor]]:
    missing = [k for k in (*_KEYS, *_MASKS.values()) if k not in arrays]
    if missing:
        raise ValueError(f'expected arrays {", ".join(missing)}')
    x, y, edges, kind, time = (arrays[key] for key in _KEYS)
    if edges.shape != (len(kind), 2) or kind.shape != time.shape:
        raise ValueError(
            f'expected edges of shape [E, 2], types and times of shape [E] '
            f'(got {list(edges.shape)}, {list(kind.shape)} and '
            f'{list(time.shape)})'
        )
    long = {
        'edge_index': edges.T,
        'edge_type': kind,
        'edge_time': time,
        'y': np.where(y > 1, -1, y),
    }
    data = Data(
        x=torch.from_numpy(x.astype(np.float32, copy=False)),
        **{
            key: torch.from_numpy(array.astype(np.int64)).contiguous()
            for key, array in long.items()
        },
    )
    masks = {}
    for part, key in _MASKS.items():
        mask = np.zeros((len(x), 1), dtype=bool)
        nodes = arrays[key]  # a list, not a mask
        if nodes.dtype.kind not in 'iu' or nodes.min(initial=0) < 0:
            raise ValueError(f"expected a list of nodes in '{key}'")
        mask[nodes] = True
        masks[part] = torch.from_numpy(mask)
    return data, masks
