"""Datasets by name, with what one has to know before using them."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from torch_energy_graph.data.facts import (
    anomaly_homophily,
    edge_homophily,
    graph_counts,
    label_counts,
)
from torch_energy_graph.datasets.cards import NOTES, ORIGINS
from torch_energy_graph.datasets.digits_outlier import DigitsOutlier
from torch_energy_graph.datasets.feature_set import FEATURE_SETS, FeatureSet
from torch_energy_graph.datasets.heterophilous import RAW_NAMES
from torch_energy_graph.datasets.named import NAMED, Named
from torch_energy_graph.datasets.npz_graph import (
    NpzGraph,
    parse_meta,
    read_arrays,
    task_of,
)
from torch_energy_graph.datasets.roots import (
    NPZ_PLACES,
    Root,
    data_roots,
    find_npz,
)
from torch_energy_graph.datasets.stored_graph import StoredGraph

__all__ = ['DatasetInfo', 'available', 'find', 'get', 'info', 'load']

DIGITS = 'digits_outlier'
_PEEKED = ('meta', 'y', 'edge_index', 'edge_ptr', 'node_labels', 'edges')

Dataset = NpzGraph | StoredGraph | DigitsOutlier | FeatureSet


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


def get(name: str, root: Root = None) -> Dataset:
    """The dataset of a name: ``[0]`` is the graph, ``splits`` its masks.

    Args:
        name (str): 'digits_outlier', the name of a graph with a class of its
            own ('fraud_yelp', 'gadbench_reddit', ...), of a set of images or
            texts ('digits', 'digits_knn', ...), or an npz file name without
            ending.
        root (str or Path, optional): Folder searched first.
            (default: :obj:`None`)
    """
    return _source(name, root)[1]()


def load(name: str, root: Root = None) -> Data:
    """The graph of a name, see :func:`get`."""
    return get(name, root)[0]


def find(name: str, root: Root = None) -> Path | None:
    """The file of a name, without reading it; None if it is embedded.

    Raises:
        FileNotFoundError: If it is in none of the folders.
        ValueError: If this cannot be a name.
    """
    return _source(name, root)[0]


def available(root: Root = None) -> list[DatasetInfo]:
    """Cards of all node-level graphs and sets in the data folders, by name.

    Args:
        root (str or Path, optional): Folder searched first.
            (default: :obj:`None`)
    """
    cards = {DIGITS: _embedded_card()}
    for name in FEATURE_SETS:
        if name in ORIGINS:  # once, also if there is one with a kNN graph
            with contextlib.suppress(FileNotFoundError):
                cards[name] = _set_card(name, FeatureSet.find(name, root))
    for name, entry in NAMED.items():
        with contextlib.suppress(FileNotFoundError):
            cards[name] = _named_card(entry, entry.find(root))
    for path in _npz_files(root):
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
    share of edges between two labelled nodes that connect equal labels,
    anomaly homophily the share of them into an anomaly that come from another
    one (both ends differ).

    Args:
        name (str): See :func:`load`.
        root (str or Path, optional): Folder searched first.
            (default: :obj:`None`)
    """
    ds = get(name, root)
    data, card = ds[0], _card(name, ds)
    anomalies, graph = card.task == 'anomaly', (data.edge_index, data.y)
    return {
        'name': name,
        'task': card.task,
        **graph_counts(data),
        **label_counts(data.y, anomalies),
        'homophily': edge_homophily(*graph),
        'anomaly_homophily': anomaly_homophily(*graph) if anomalies else None,
        'splits': {
            key: train.size(1) for key, (train, *_) in ds.splits.items()
        },
        'source': card.source,
        'licence': card.licence,
        'notes': list(card.notes),
        'path': None if card.path is None else str(card.path),
    }


def _source(
    name: str, root: Root
) -> tuple[Path | None, Callable[[], Dataset]]:
    if name == DIGITS:
        return None, DigitsOutlier
    if name in FEATURE_SETS:
        path = FeatureSet.find(name, root)
        return path, partial(FeatureSet, name, root)
    npz = partial(NpzGraph, name, root)
    if name not in NAMED:
        return find_npz(name, root), npz
    entry = NAMED[name]
    try:
        return entry.find(root), partial(entry.load, root)
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            return find_npz(name, root), npz
        raise


def _npz_files(root: Root) -> Iterator[Path]:
    for folder in data_roots(root):
        for place in NPZ_PLACES:
            for path in sorted(folder.glob(place.format('*'))):
                name = path.stem
                if path == folder / place.format(name):
                    yield path


def _card(name: str, ds: Dataset) -> DatasetInfo:
    if isinstance(ds, NpzGraph):
        return _npz_card(ds.path, ds.task, ds.meta)
    if isinstance(ds, StoredGraph):
        return _named_card(NAMED[name], ds.path)
    if isinstance(ds, FeatureSet):
        return _set_card(name, ds.path)
    return _embedded_card()


def _set_card(name: str, path: Path | None) -> DatasetInfo:
    base = name.removesuffix('_knn')
    return DatasetInfo(
        name, 'classification', *ORIGINS[base], NOTES[base], path
    )


def _embedded_card() -> DatasetInfo:
    return DatasetInfo(
        DIGITS, 'anomaly', *ORIGINS[DIGITS], NOTES[DIGITS], None
    )


def _named_card(entry: Named, path: Path) -> DatasetInfo:
    return DatasetInfo(entry.name, 'anomaly', *entry.origin, entry.notes, path)


def _npz_card(path: Path, task: str, meta: dict[str, str]) -> DatasetInfo:
    note = (meta['note'],) if 'note' in meta else ()
    source, licence = ORIGINS.get(path.stem, ('unknown', 'unknown'))
    return DatasetInfo(
        name=path.stem,
        task=task,
        source=meta.get('source', source),
        licence=meta.get('licence', licence),
        notes=NOTES.get(path.stem, note),
        path=path,
    )


def _peek(path: Path) -> DatasetInfo | None:
    """Card from the small arrays of a file; None if it is no node graph."""
    arrays = read_arrays(path, _PEEKED)
    raw = {RAW_NAMES[key]: arrays[key] for key in arrays if key in RAW_NAMES}
    arrays = {**raw, **arrays}
    if not {'y', 'edge_index'} <= set(arrays) or 'edge_ptr' in arrays:
        return None
    return _npz_card(path, task_of(arrays), parse_meta(arrays, path))
