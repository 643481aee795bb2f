"""Node labels and masks of anomaly benchmarks in DGL's binary files."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.data import DGLGraph, read_dgl_binary
from torch_energy_graph.datasets.relations import Edges, join_relations
from torch_energy_graph.datasets.roots import Root, find_file
from torch_energy_graph.datasets.stored_graph import StoredGraph, Transform

__all__ = ['DGLNodeGraph']

Arrays = dict[str, NDArray[Any]]

_PARTS = ('train', 'val', 'test')


class DGLNodeGraph(StoredGraph):
    r"""The one graph of a file, its nodes with ``feature`` and ``label``.

    Labels are :math:`[N]` or one-hot :math:`[N, 2]`; others than 0 and 1
    become -1. If there are ``train_masks``, ``val_masks`` and ``test_masks``
    :math:`[N, S]`, they are the fields :obj:`train_mask`, :obj:`val_mask` and
    :obj:`test_mask`, and nodes outside of all of them become -1: such files
    store 0 for nodes without a label.
    """

    def __init__(
        self,
        name: str,
        places: Sequence[str],
        root: Root = None,
        edges: Edges = 'typed',
        transform: Transform = None,
    ) -> None:
        path = find_file(name, places, root)
        graphs, _ = read_dgl_binary(path)
        try:
            arrays = _node_arrays(graphs)
            relations = {
                relation.removeprefix('net_'): ends
                for (_, relation, _), ends in graphs[0].edges.items()
            }
            masks = _masks(arrays)
            data = Data(
                x=torch.from_numpy(_features(arrays['feature'])),
                y=_labels(arrays['label']),
                **join_relations(relations, edges),
                **{f'{part}_mask': mask for part, mask in masks.items()},
            )
        except ValueError as error:
            raise ValueError(f"bad graph in '{path}': {error}") from error
        if masks:
            used = torch.cat(list(masks.values()), dim=1).any(dim=1)  # [N]
            data.y = data.y.masked_fill(~used, -1)
        families = {'gadbench': masks} if masks else {}
        super().__init__(path, data, families, transform)
        self.relations = tuple(relations)


def _node_arrays(graphs: list[DGLGraph]) -> Arrays:
    if len(graphs) != 1 or len(graphs[0].node_data) != 1:
        found = [list(graph.node_data) for graph in graphs]
        raise ValueError(
            f'expected one graph with one type of nodes (got the types '
            f'{found})'
        )
    (arrays,) = graphs[0].node_data.values()
    if not graphs[0].edges or not {'feature', 'label'} <= {*arrays}:
        raise ValueError(
            f"expected edges and node data 'feature' and 'label' (got "
            f'{", ".join(sorted(arrays)) or "none"})'
        )
    return arrays


def _features(feature: NDArray[Any]) -> NDArray[np.float32]:
    if feature.ndim != 2:
        raise ValueError(
            f"expected 'feature' of shape [N, F] (got {list(feature.shape)})"
        )
    return feature.astype(np.float32, copy=False)


def _labels(label: NDArray[Any]) -> Tensor:
    if label.ndim == 2 and label.shape[1] == 2:
        if not (np.sort(label, axis=1) == (0, 1)).all():
            raise ValueError("expected one 1 in each row of 'label' [N, 2]")
        label = label.argmax(axis=1)
    if label.ndim != 1:
        raise ValueError(
            f"expected 'label' of shape [N] or [N, 2] (got "
            f'{list(label.shape)})'
        )
    y = np.where(label == 1, 1, np.where(label == 0, 0, -1))
    return torch.from_numpy(y.astype(np.int64))


def _masks(arrays: Arrays) -> dict[str, Tensor]:
    masks = {}
    for part in _PARTS:
        array = arrays.get(f'{part}_masks')
        if array is None:
            continue
        if array.ndim != 2 or not np.isin(array, (0, 1)).all():
            raise ValueError(
                f"expected 0 and 1 in '{part}_masks' of shape [N, S] (got "
                f'{list(array.shape)} of {array.dtype})'
            )
        masks[part] = torch.from_numpy(array.astype(bool))
    if len(masks) not in (0, len(_PARTS)):
        raise ValueError(
            f'expected masks of train, val and test (got {list(masks)})'
        )
    return masks
