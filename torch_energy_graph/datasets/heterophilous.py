"""Raw files of PyG's ``HeterophilousGraphDataset`` as uniform arrays.

PyG's class would fetch a file that is absent, write beside it and unpickle
what lies there; reading the raw file needs none of it.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torch_geometric.utils import to_undirected

__all__ = ['RAW_NAMES', 'uniform_arrays']

Arrays = dict[str, NDArray[Any]]

RAW_NAMES = {
    'node_features': 'x',
    'node_labels': 'y',
    'edges': 'edge_index',
    'train_masks': 'train_mask',
    'val_masks': 'val_mask',
    'test_masks': 'test_mask',
}


def uniform_arrays(arrays: Arrays) -> Arrays:
    """Arrays of an npz graph; those of the raw form are renamed and turned.

    The raw form lists each edge once in rows :math:`[E, 2]` and has masks
    :math:`[S, N]`.
    """
    if 'node_features' not in arrays:
        return arrays
    missing = [name for name in RAW_NAMES if name not in arrays]
    if missing:
        raise ValueError(f'expected arrays {", ".join(missing)}')
    uniform = {new: arrays[old] for old, new in RAW_NAMES.items()}
    for key in ('train_mask', 'val_mask', 'test_mask'):
        uniform[key] = uniform[key].T.copy()
    uniform['edge_index'] = _both_ways(arrays['edges'], len(uniform['x']))
    return uniform


def _both_ways(edges: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in 'iu':
        raise ValueError(
            f'expected integer edges of shape [E, 2] (got '
            f'{list(edges.shape)} of {edges.dtype})'
        )
    if edges.size and not 0 <= edges.min() <= edges.max() < num_nodes:
        raise IndexError(
            f'expected node indices 0 to {num_nodes - 1} in edges (got '
            f'{edges.min()} to {edges.max()})'
        )
    edge_index = torch.from_numpy(edges.T.astype(np.int64))
    return to_undirected(edge_index, num_nodes=num_nodes).numpy()
