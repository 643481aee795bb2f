"""The graphs of reviews and reviewers that CARE-GNN published."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.data import FraudMat, read_fraud_mat
from torch_energy_graph.datasets.relations import Edges, join_relations
from torch_energy_graph.datasets.roots import Root, find_file
from torch_energy_graph.datasets.stored_graph import StoredGraph, Transform

__all__ = ['FraudMatGraph']

_DGL_SEED = 717


class FraudMatGraph(StoredGraph):
    """A graph with several relations from a ``.mat`` file.

    Subclasses say which file it is and which nodes are unlabelled.
    """

    name: ClassVar[str]
    places: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        root: Root = None,
        relations: Sequence[str] | None = None,
        edges: Edges = 'typed',
        transform: Transform = None,
    ) -> None:
        path = find_file(self.name, self.places, root)
        content = read_fraud_mat(path)
        chosen = _choose(content, relations, path)
        labelled = np.arange(
            self._num_unlabeled(content, path), len(content.y)
        )
        y = np.full_like(content.y, -1)
        y[labelled] = content.y[labelled]
        data = Data(
            x=torch.from_numpy(content.x),
            y=torch.from_numpy(y),
            **join_relations({r: content.relations[r] for r in chosen}, edges),
        )
        masks = {'dgl': _dgl_masks(labelled, len(y))}
        super().__init__(path, data, masks, transform)
        self.relations = chosen

    def _num_unlabeled(self, content: FraudMat, path: Path) -> int:
        """How many of the first nodes have no label."""
        return 0


def _choose(
    content: FraudMat, names: Sequence[str] | None, path: Path
) -> tuple[str, ...]:
    chosen = tuple(content.relations) if names is None else tuple(names)
    unknown = [name for name in chosen if name not in content.relations]
    if unknown or not chosen or len({*chosen}) < len(chosen):
        raise ValueError(
            f"expected 'relations' among {', '.join(content.relations)}, "
            f"those of '{path}', each once (got {list(chosen)})"
        )
    return chosen


def _dgl_masks(
    labelled: NDArray[np.int64], num_nodes: int
) -> dict[str, Tensor]:
    """DGL's split: the first 70 % train, the last 10 % validate."""
    order = np.random.RandomState(_DGL_SEED).permutation(labelled)
    train = int(0.7 * len(order))
    val = len(order) - int(0.1 * len(order))
    parts = {'train': order[:train], 'val': order[val:]}
    parts['test'] = order[train:val]
    masks = {}
    for part, nodes in parts.items():
        masks[part] = torch.zeros(num_nodes, 1, dtype=torch.bool)
        masks[part][torch.from_numpy(nodes)] = True
    return masks
