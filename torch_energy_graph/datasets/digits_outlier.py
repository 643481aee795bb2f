r"""Rare digits in a graph of handwritten digits: data that is always there.

Recipe, all of it drawn from one seed:

1. Of the 1,797 8x8 digits that ship with scikit-learn (pixels scaled to
   [0, 1]), keep all images of the other nine classes as normal nodes and
   :obj:`num_anomalies` random images of the class :obj:`digit` as anomalies.
   Nodes keep the order of the images.
2. Make two noisy views of each image with independent Gaussian noise. One is
   the features :obj:`x`; the other is only used for edges.
3. Connect each node with its :obj:`num_neighbors` nearest nodes in the second
   view, in both directions.

A single noisy image says little, its neighbours are noisy views of similar
images: with the defaults and 40 % of the labels, logistic regression reaches
an average precision of about 0.26 on :obj:`x` and about 0.46 with the mean
features of one and two hops (chance is 0.03). Anomalies are 27 % of an
anomaly's neighbours: the graph helps, and also hides.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.utils import from_scipy_sparse_matrix, to_undirected

from torch_energy_graph.datasets.splits import Split

__all__ = ['DigitsOutlier']


class DigitsOutlier(InMemoryDataset):
    r"""The digits of scikit-learn with one class thinned to rare anomalies.

    Labels :obj:`y` are 0 for normal and 1 for anomalous nodes. There are no
    stored masks: protocols draw them.

    Args:
        digit (int, optional): The anomalous class. (default: :obj:`8`)
        num_anomalies (int, optional): Images kept of it.
            (default: :obj:`50`)
        num_neighbors (int, optional): Nearest neighbours of a node.
            (default: :obj:`10`)
        noise (float, optional): Standard deviation of the pixel noise.
            (default: :obj:`0.3`)
        seed (int, optional): Seed of anomalies and noise.
            (default: :obj:`0`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)

    **STATS (defaults):** 1,673 nodes, 25,868 directed edges, 64 features,
    50 anomalies (3.0 %).
    """

    splits: ClassVar[Mapping[str, Split]] = {}

    def __init__(
        self,
        digit: int = 8,
        num_anomalies: int = 50,
        num_neighbors: int = 10,
        noise: float = 0.3,
        seed: int = 0,
        transform: Callable[[Data], Data] | None = None,
    ) -> None:
        super().__init__(None, transform)
        if digit not in range(10):
            raise ValueError(f"expected 'digit' from 0 to 9 (got {digit})")
        pixels, classes = load_digits(return_X_y=True)
        rare = np.flatnonzero(classes == digit)
        if not 1 <= num_anomalies <= len(rare):
            raise ValueError(
                f"expected 1 <= 'num_anomalies' <= {len(rare)} for digit "
                f'{digit} (got {num_anomalies})'
            )
        if num_neighbors < 1 or noise < 0:
            raise ValueError(
                f"expected 'num_neighbors' >= 1 and 'noise' >= 0 (got "
                f'{num_neighbors} and {noise})'
            )
        rng = np.random.default_rng(seed)
        kept = rng.choice(rare, num_anomalies, replace=False)
        nodes = np.union1d(np.flatnonzero(classes != digit), kept)
        clean = pixels[nodes] / 16  # [N, 64]
        features, view = clean + noise * rng.standard_normal((2, *clean.shape))
        edge_index, _ = from_scipy_sparse_matrix(
            kneighbors_graph(view, num_neighbors)
        )
        data = Data(
            x=torch.from_numpy(features).float(),
            edge_index=to_undirected(edge_index.long()),
            y=torch.from_numpy(classes[nodes] == digit).long(),
        )
        self.data, self.slices = self.collate([data])
