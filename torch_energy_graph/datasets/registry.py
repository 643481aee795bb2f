"""Datasets by name, with what one has to know before using them."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.utils import (
    homophily,
    is_undirected,
    remove_self_loops,
)

from torch_energy_graph.datasets.digits_outlier import DigitsOutlier
from torch_energy_graph.datasets.npz_graph import (
    NpzGraph,
    parse_meta,
    read_arrays,
    task_of,
)
from torch_energy_graph.datasets.roots import Root, data_roots

__all__ = ['DatasetInfo', 'available', 'info', 'load']

DIGITS = 'digits_outlier'

_SINGLE_RELATION = (
    'one of three relations, isolated nodes dropped: scores are not '
    'comparable with papers that use all relations'
)
_NOTES: dict[str, tuple[str, ...]] = {
    DIGITS: (
        'one class of the 8x8 digits thinned to rare anomalies, kNN graph of '
        'noisy images; no stored splits',
    ),
    'amazon_fraud_upu': (
        _SINGLE_RELATION + ' (U-P-U)',
        'nodes outside labeled_mask are unlabelled (y = -1): never train or '
        'evaluate on them',
        'labels are a function of helpful votes, which are also features',
    ),
    'yelpchi_rur': (
        _SINGLE_RELATION + ' (R-U-R)',
        'node order clusters by label: use random stratified splits only',
        '99.6 % of the edges connect the same label',
    ),
    'tolokers': (
        "split family 'gadbench' follows the GADBench recipe, its masks "
        'could not be compared with the GADBench files',
    ),
    'reddit': (
        'holds one self-loop per node: remove them before a layer adds its '
        'own',
        "split family 'gadbench' follows the GADBench recipe, its masks "
        'could not be compared with the GADBench files',
    ),
    'books': ('28 anomalies; edges were directed in the source',),
    'disney': (
        '124 nodes, 6 anomalies: for smoke tests, scores are mostly chance; '
        'edges were directed in the source',
    ),
    'minesweeper': (
        'synthetic: 20 % anomalies on a grid, decided by the neighbours',
    ),
    'inj_cora': (
        'injected outliers: outlier_type 1 contextual, 2 structural, 3 both',
        'official masks are those of Cora: few anomalies in train',
    ),
    'gen_500': (
        'generated outliers: outlier_type 1 contextual, 2 structural',
        '20 anomalies, 3 isolated nodes: for smoke tests',
    ),
}


@dataclass(frozen=True)
class DatasetInfo:
    """The card of a dataset that is on this machine.

    Attributes:
        name: Name for :func:`load`.
        task: 'anomaly' (binary labels) or 'classification'.
        source: Where it comes from.
        licence: Of the copy and of the data.
        notes: Traps.
        path: The file; :obj:`None` if the data is embedded.
    """

    name: str
    task: str
    source: str
    licence: str
    notes: tuple[str, ...]
    path: Path | None


def load(name: str, root: Root = None) -> Data:
    """The graph of a name.

    Args:
        name (str): 'digits_outlier', or an npz file name without ending.
        root (str or Path, optional): Folder searched first.
            (default: :obj:`None`)
    """
    return _dataset(name, root)[0]


def available(root: Root = None) -> list[DatasetInfo]:
    """Cards of all node-level graphs in the data folders, by name.

    Args:
        root (str or Path, optional): Folder searched first.
            (default: :obj:`None`)
    """
    cards = {DIGITS: _digits_card()}
    for folder in data_roots(root):
        for path in sorted(folder.glob('*.npz')):
            if path.stem in cards:
                continue
            try:
                card = _peek(path)
            except ValueError as error:
                warnings.warn(str(error), stacklevel=2)
                continue
            if card is not None:
                cards[path.stem] = card
    return sorted(cards.values(), key=lambda card: card.name)


def info(name: str, root: Root = None) -> dict[str, Any]:
    """Counts and card of a dataset, ready for JSON.

    Prevalence and homophily regard labelled nodes only; homophily is the
    share of edges between two labelled nodes that connect equal labels.

    Args:
        name (str): See :func:`load`.
        root (str or Path, optional): Folder searched first.
            (default: :obj:`None`)
    """
    ds = _dataset(name, root)
    data = ds[0]
    if isinstance(ds, NpzGraph):
        card, splits = _npz_card(ds.path, ds.task, ds.meta), ds.splits
    else:
        card, splits = _digits_card(), {}
    return {
        'name': name,
        'task': card.task,
        **_counts(data),
        **_label_counts(data.y, card.task),
        'homophily': _homophily(data),
        'splits': {key: train.size(1) for key, (train, *_) in splits.items()},
        'source': card.source,
        'licence': card.licence,
        'notes': list(card.notes),
        'path': None if card.path is None else str(card.path),
    }


def _dataset(name: str, root: Root) -> NpzGraph | DigitsOutlier:
    return DigitsOutlier() if name == DIGITS else NpzGraph(name, root)


def _digits_card() -> DatasetInfo:
    return DatasetInfo(
        name=DIGITS,
        task='anomaly',
        source='scikit-learn (UCI optical recognition of digits)',
        licence='scikit-learn BSD-3-Clause; data CC BY 4.0',
        notes=_NOTES[DIGITS],
        path=None,
    )


def _npz_card(path: Path, task: str, meta: dict[str, str]) -> DatasetInfo:
    note = (meta['note'],) if 'note' in meta else ()
    return DatasetInfo(
        name=path.stem,
        task=task,
        source=meta.get('source', 'unknown'),
        licence=meta.get('licence', 'unknown'),
        notes=_NOTES.get(path.stem, note),
        path=path,
    )


def _peek(path: Path) -> DatasetInfo | None:
    """Card from the small arrays of a file; None if it is no node graph."""
    arrays = read_arrays(path, ('meta', 'y', 'edge_index', 'edge_ptr'))
    if not {'y', 'edge_index'} <= set(arrays) or 'edge_ptr' in arrays:
        return None
    return _npz_card(path, task_of(arrays), parse_meta(arrays, path))


def _counts(data: Data) -> dict[str, Any]:
    loops = data.edge_index[0] == data.edge_index[1]
    edge_index, _ = remove_self_loops(data.edge_index)
    seen = torch.zeros(data.num_nodes, dtype=torch.bool)
    seen[edge_index.view(-1)] = True
    return {
        'num_nodes': data.num_nodes,
        'num_edges': data.num_edges,
        'num_features': data.num_features,
        'num_self_loops': int(loops.sum()),
        'num_isolated': int((~seen).sum()),
        'undirected': is_undirected(data.edge_index, num_nodes=data.num_nodes),
    }


def _label_counts(y: Tensor, task: str) -> dict[str, Any]:
    labels = y[y >= 0]
    counts: dict[str, Any] = {
        'num_labeled': labels.numel(),
        'num_classes': labels.unique().numel(),
    }
    if task == 'anomaly':
        anomalies = int(labels.sum())
        counts['num_anomalies'] = anomalies
        counts['prevalence'] = anomalies / max(1, labels.numel())
    return counts


def _homophily(data: Data) -> float | None:
    known = (data.y >= 0)[data.edge_index].all(dim=0)
    edge_index = data.edge_index[:, known]
    if edge_index.size(1) == 0:
        return None
    return float(homophily(edge_index, data.y, method='edge'))
