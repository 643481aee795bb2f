"""Illicit transactions in Bitcoin."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from torch_geometric.data import Data

from torch_energy_graph.datasets.roots import Root, find_file
from torch_energy_graph.datasets.stored_graph import StoredGraph, Transform

__all__ = ['EllipticBitcoinDataset']

_LABELS = {'1': 1, '2': 0, 'unknown': -1}
_LAST_TRAIN, _LAST_VAL = 25, 34


class EllipticBitcoinDataset(StoredGraph):
    r"""Bitcoin transactions, connected by the flow of payments.

    The three files of PyG's
    :class:`~torch_geometric.datasets.EllipticBitcoinDataset`, from
    `"Anti-Money Laundering in Bitcoin" <https://arxiv.org/abs/1908.02591>`_,
    read from the raw folder, with the same 165 features and edges. Labels are
    1 (illicit), 0 (licit) and -1 (unknown, which PyG calls 2);
    :obj:`time_step` :math:`[N]` is kept.

    Args:
        root (str or Path, optional): Folder of the files; if they are not
            there, the folders of
            :func:`~torch_energy_graph.datasets.data_roots` are searched.
            (default: :obj:`None`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)

    Attributes:
        splits: Masks of the family 'official': the published split by time
            (test from step 35), its steps 26 to 34 for validation.

    **STATS (published):** 203,769 nodes, 234,355 directed edges, 165
    features, 46,564 labelled nodes, 4,545 anomalies (9.8 %).
    """

    places: ClassVar[tuple[str, ...]] = tuple(
        f'{folder}elliptic_txs_features.csv'
        for folder in (
            '',
            'raw/',
            'EllipticBitcoinDataset/',
            'EllipticBitcoinDataset/raw/',
            'elliptic_bitcoin_dataset/',
        )
    )

    def __init__(self, root: Root = None, transform: Transform = None) -> None:
        path = find_file('elliptic', self.places, root)
        table = _table(path)  # [N, 2 + F]: id, time step, features
        ids = table[:, 0].astype(np.int64)
        time_step = torch.from_numpy(table[:, 1].astype(np.int64))
        classes = path.with_name('elliptic_txs_classes.csv')
        edges = path.with_name('elliptic_txs_edgelist.csv')
        y = torch.from_numpy(_labels(classes, ids))
        data = Data(
            x=torch.from_numpy(table[:, 2:].astype(np.float32)),
            edge_index=torch.from_numpy(_edges(edges, ids)),
            y=y,
            time_step=time_step,
        )
        train = time_step <= _LAST_TRAIN
        test = time_step > _LAST_VAL
        parts = {'train': train, 'val': ~(train | test), 'test': test}
        masks = {part: (m & (y >= 0))[:, None] for part, m in parts.items()}
        super().__init__(path, data, {'official': masks}, transform)


def _table(path: Path) -> NDArray[np.float64]:
    return _csv(path, dtype=np.float64, skiprows=0, columns=3)


def _labels(path: Path, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    rows = _csv(path, dtype=np.str_, skiprows=1, columns=2)
    unknown = {*np.unique(rows[:, 1])} - {*_LABELS}
    if unknown:
        raise ValueError(
            f"expected classes {', '.join(_LABELS)} in '{path}' (got "
            f'{", ".join(sorted(unknown)[:5])})'
        )
    y = np.full(len(ids), -1)
    nodes = _positions(rows[:, 0].astype(np.int64), ids, path)
    y[nodes] = [_LABELS[name] for name in rows[:, 1]]
    return y


def _edges(path: Path, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    rows = _csv(path, dtype=np.int64, skiprows=1, columns=2)
    return _positions(rows.T, ids, path)


def _csv(
    path: Path, dtype: type[Any], skiprows: int, columns: int
) -> NDArray[Any]:
    try:
        table: NDArray[Any] = np.loadtxt(
            path, dtype, delimiter=',', skiprows=skiprows, ndmin=2
        )
    except ValueError as error:
        raise ValueError(f"bad table in '{path}': {error}") from error
    if table.shape[1] < columns:
        raise ValueError(
            f"expected {columns} or more columns in '{path}' (got "
            f'{table.shape[1]})'
        )
    return table


def _positions(
    wanted: NDArray[np.int64], ids: NDArray[np.int64], path: Path
) -> NDArray[np.int64]:
    """Row of each identifier in the table of features."""
    order = np.argsort(ids)
    place = np.searchsorted(ids, wanted, sorter=order)
    nodes = order[np.minimum(place, len(ids) - 1)]
    absent = wanted[ids[nodes] != wanted]
    if absent.size:
        raise ValueError(
            f"'{path}' names {absent.size} transactions without features, "
            f'first {absent[:5].tolist()}'
        )
    return nodes
