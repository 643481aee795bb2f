r"""Images and texts as sets of nodes, with or without a kNN graph.

A name ends in ``_knn`` if its graph connects every item with its nearest
ones (Euclidean distance of the features), in both directions and without
self-loops; other sets have no edge.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from torch import Tensor

from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.utils import from_scipy_sparse_matrix, to_undirected

from torch_energy_graph.data import check_graph
from torch_energy_graph.datasets.npz_graph import (
    features_of,
    read_arrays,
)
from torch_energy_graph.datasets.roots import Root, find_file
from torch_energy_graph.datasets.splits import Split

__all__ = ['FEATURE_SETS', 'FeatureSet']

KNN = '_knn'


# where the files may lie; nowhere if the set is embedded
_PLACES: dict[str, tuple[str, ...]] = {
    'digits': (),
    'mnist': ('images/mnist_test.npz', 'mnist_test.npz'),
    '20news10': ('text/20news10.npz', '20news10.npz'),
}
FEATURE_SETS = tuple(f'{name}{end}' for name in _PLACES for end in ('', KNN))


class FeatureSet(InMemoryDataset):
    r"""Images or texts as nodes, by name.

    * ``digits``: the 1,797 8x8 digits of scikit-learn, pixels in [0, 1];
      always there.
    * ``mnist``: the 10,000 test images, pixels in [0, 1].
    * ``20news10``: 9,607 texts of ten newsgroups, tf-idf of 236 words, as in
      the DIFFormer paper.

    There are no stored masks: protocols draw them.

    Args:
        name (str): One of these names, or with ``_knn`` behind it.
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        num_neighbors (int, optional): Nearest items of each one, if there is
            a graph. (default: :obj:`5`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)
    """

    def __init__(
        self,
        name: str,
        root: Root = None,
        num_neighbors: int = 5,
        transform: Callable[[Data], Data] | None = None,
    ) -> None:
        super().__init__(None, transform)
        self.name = name
        self.path = self.find(name, root)
        x, y = _digits() if self.path is None else _read(self.path)
        edge_index = torch.empty(2, 0, dtype=torch.long)
        if name.endswith(KNN):
            edge_index = _nearest(x, num_neighbors)
        data = Data(x=torch.from_numpy(x), edge_index=edge_index, y=y)
        check_graph(data, binary=False)
        self.splits: dict[str, Split] = {}
        self.data, self.slices = self.collate([data])

    @staticmethod
    def find(name: str, root: Root = None) -> Path | None:
        """The file of a set; :obj:`None` if it is embedded."""
        if name not in FEATURE_SETS:
            raise ValueError(
                f"expected one of {', '.join(FEATURE_SETS)} (got '{name}')"
            )
        places = _PLACES[name.removesuffix(KNN)]
        return find_file(name, places, root) if places else None

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self.name!r})'


def _digits() -> tuple[NDArray[np.float32], Tensor]:
    pixels, classes = load_digits(return_X_y=True)
    x = np.asarray(pixels / 16, dtype=np.float32)
    return x, torch.from_numpy(np.asarray(classes, dtype=np.int64))


def _read(path: Path) -> tuple[NDArray[np.float32], Tensor]:
    arrays = read_arrays(path)
    try:
        x = features_of(arrays)
        if 'x' in arrays and arrays['x'].dtype == np.uint8:  # pixels
            x = x / np.float32(255)
        y = torch.from_numpy(arrays['y'].astype(np.int64))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"bad set in '{path}': {error}") from error
    return x.reshape(len(x), -1), y


def _nearest(x: NDArray[np.float32], count: int) -> Tensor:
    if not 1 <= count < len(x):
        raise ValueError(
            f"expected 1 <= 'num_neighbors' < {len(x)} items (got {count})"
        )
    edge_index, _ = from_scipy_sparse_matrix(kneighbors_graph(x, count))
    undirected: Tensor = to_undirected(edge_index.long(), num_nodes=len(x))
    return undirected
