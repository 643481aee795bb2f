"""Sets of labelled graphs in npz files, read without pickle."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from torch_geometric.data import Data, InMemoryDataset

from torch_energy_graph.datasets.npz_graph import (
    Arrays,
    features_of,
    parse_meta,
    read_arrays,
)
from torch_energy_graph.datasets.roots import Root, find_file

__all__ = ['NpzGraphSet']

_PLACES = ('{0}.npz', 'tu/{0}.npz')


class NpzGraphSet(InMemoryDataset):
    r"""Graphs with one class each, such as the TU sets, from an npz file.

    Arrays of the file, of B graphs one after another: features :obj:`x`
    :math:`[N, F]` or their CSR parts (see
    :class:`~torch_energy_graph.datasets.NpzGraph`), pointers
    :obj:`node_ptr` and :obj:`edge_ptr` :math:`[B + 1]`, :obj:`edge_index`
    :math:`[2, E]` with nodes counted within their graph, classes :obj:`y`
    :math:`[B]`; optionally :obj:`edge_attr` :math:`[E, D]`,
    :obj:`num_node_attributes` (how many of the first features are numbers
    and not one-hot labels) and :obj:`meta`, a JSON object in a string.

    Args:
        name (str): File name without ending.
        root (str or Path, optional): Folder of the file, or of a folder
            ``tu`` with it; if it is not there, the folders of
            :func:`~torch_energy_graph.datasets.data_roots` are searched.
            (default: :obj:`None`)
        transform (callable, optional): Applied to a graph at each access.
            (default: :obj:`None`)

    Attributes:
        meta: Source, licence and notes of the file.
        num_node_attributes: Number of features that are numbers.
        path: The file.

    Example:
        >>> NpzGraphSet('MUTAG')[0]  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        root: Root = None,
        transform: Callable[[Data], Data] | None = None,
    ) -> None:
        super().__init__(None, transform)
        places = [place.format(name) for place in _PLACES]
        self.path = find_file(name, places, root)
        arrays = read_arrays(self.path)
        try:
            self.data, self.slices = _graphs(arrays)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"bad set in '{self.path}': {error}") from error
        self.meta = parse_meta(arrays, self.path)
        self.num_node_attributes = int(arrays.get('num_node_attributes', 0))
        self._set_name = name

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self._set_name!r}, {len(self)})'


def _graphs(arrays: Arrays) -> tuple[Data, dict[str, Tensor]]:
    """All graphs as one, and where each of them begins."""
    lacking = {'node_ptr', 'edge_ptr', 'edge_index', 'y'} - set(arrays)
    if lacking:
        raise ValueError(
            f'expected arrays {", ".join(sorted(lacking))} (got '
            f'{", ".join(sorted(arrays))})'
        )
    x = torch.from_numpy(features_of(arrays))
    y = torch.from_numpy(arrays['y'].astype(np.int64))
    edge_index = torch.from_numpy(arrays['edge_index'].astype(np.int64))
    node_ptr = _pointers(arrays, 'node_ptr', len(y), len(x))
    edge_ptr = _pointers(arrays, 'edge_ptr', len(y), edge_index.size(1))
    size = node_ptr.diff().repeat_interleave(edge_ptr.diff())  # [E]
    if ((edge_index < 0) | (edge_index >= size)).any():
        raise ValueError(
            'edge_index names a node that its graph does not have; nodes '
            'are counted within their graph, from 0'
        )
    data = Data(x=x, edge_index=edge_index, y=y)
    slices = {'x': node_ptr, 'edge_index': edge_ptr}
    slices['y'] = torch.arange(len(y) + 1)
    if 'edge_attr' in arrays:
        if len(arrays['edge_attr']) != edge_index.size(1):
            raise ValueError(
                f'expected one row of edge_attr for each of the '
                f'{edge_index.size(1)} edges (got {len(arrays["edge_attr"])})'
            )
        data.edge_attr = torch.from_numpy(arrays['edge_attr']).float()
        slices['edge_attr'] = edge_ptr
    return data, slices


def _pointers(arrays: Arrays, key: str, count: int, end: int) -> Tensor:
    ptr = torch.from_numpy(arrays[key].astype(np.int64))
    rising = bool((ptr.diff() >= 0).all())
    if ptr.shape != (count + 1,) or not rising or ptr[0] or ptr[-1] != end:
        raise ValueError(
            f'expected {key} to rise from 0 to {end} in {count} steps, one '
            f'for each entry of y (got {len(ptr)} entries)'
        )
    return ptr
