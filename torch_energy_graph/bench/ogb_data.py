"""A dataset of OGB as a task: the graph, the split and OGB's metric."""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.utils import (
    coalesce,
    scatter,
    to_undirected,
)

from torch_energy_graph.datasets.roots import data_roots

__all__ = ['DATASETS', 'DataParams', 'DatasetName', 'OGBTask', 'load_task']

DatasetName: TypeAlias = Literal[
    'ogbn-arxiv', 'ogbn-proteins', 'ogbn-products'
]
DATASETS = get_args(DatasetName)
Score = Callable[[Tensor, Tensor], float]


@dataclass(frozen=True)
class DataParams:
    """How the graph is prepared; nothing here reads a label.

    Parallel edges are merged; self-loops are left to the layers.

    Args:
        undirected (bool): Add the reverse of every edge.
        edge_features (str): How a node without features sums up those of
            its in-edges.
    """

    undirected: bool = False
    edge_features: Literal['mean', 'sum'] = 'mean'


@dataclass(frozen=True)
class OGBTask:
    """What one training needs.

    Args:
        name (str): Name of the dataset.
        graph (Data): ``x`` :math:`[N, C]` and ``edge_index``; no labels.
        y (Tensor): Labels :math:`[N, T]`; NaN is unlabelled.
        split (dict): Indices of ``train``, ``valid`` and ``test`` nodes.
        metric (str): ``acc`` or ``rocauc``.
        out_channels (int): Number of classes, or of binary tasks.
        score (callable): ``score(y, prediction)``, OGB's Evaluator.
        ogb_version (str): Version of OGB.
    """

    name: str
    graph: Data
    y: Tensor
    split: dict[str, Tensor]
    metric: str
    out_channels: int
    score: Score
    ogb_version: str

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of classes, or its mean over labelled binary tasks.

        Args:
            logits (Tensor): :math:`[n, K]`.
            y (Tensor): :math:`[n, T]`.
        """
        if self.metric == 'acc':
            return F.cross_entropy(logits, y.view(-1))
        y = y.to(logits.dtype)
        labelled = ~y.isnan()
        return F.binary_cross_entropy_with_logits(
            logits[labelled], y[labelled]
        )

    def predict(self, logits: Tensor) -> Tensor:
        """Return what the Evaluator wants: classes, or scores of tasks."""
        if self.metric == 'acc':
            return logits.argmax(dim=-1, keepdim=True)  # [N, 1]
        return logits  # [N, T]


def load_task(
    name: str,
    params: DataParams,
    root: str | os.PathLike[str] | None = None,
    download: bool = False,
) -> OGBTask:
    """Load a dataset of OGB through OGB's loader and prepare its graph.

    Args:
        name (str): One of :obj:`DATASETS`.
        params (DataParams): How the graph is prepared.
        root (str or PathLike, optional): OGB's root, the folder that holds
            ``ogbn_arxiv``; if :obj:`None`, the first of the usual data
            folders and their subfolders ``ogb`` that holds the dataset.
            (default: :obj:`None`)
        download (bool, optional): Fetch the dataset if it is nowhere.
            (default: :obj:`False`)

    Raises:
        FileNotFoundError: If the dataset is nowhere and is not fetched.
        ValueError: If the files are damaged or of another release.
    """
    if name not in DATASETS:
        raise ValueError(
            f'expected one of {", ".join(DATASETS)} (got {name!r})'
        )
    place = _place(name, root, download)
    # OGB takes a while to import, and prints to standard output
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.filterwarnings('ignore', '.*NumPy array is not writable')
        from torch_energy_graph.bench import ogb_dataset

        dataset = ogb_dataset.OGBDataset(name, place, download)
        evaluator = ogb_dataset.Evaluator(name)
    data, metric = dataset[0], str(dataset.eval_metric)
    split = dataset.get_idx_split()
    _check(data, split, dataset.root)

    def score(y: Tensor, prediction: Tensor) -> float:
        value = evaluator.eval({'y_true': y, 'y_pred': prediction})[metric]
        return float(value)

    classes, tasks = dataset.num_classes, dataset.num_tasks
    return OGBTask(
        name,
        _prepare(data, params),
        data.y,
        split,
        metric,
        classes if metric == 'acc' else tasks,
        score,
        ogb_dataset.OGB_VERSION,
    )


def _place(
    name: str, root: str | os.PathLike[str] | None, download: bool
) -> Path:
    """Return the folder that holds OGB's folder of the dataset."""
    if root is not None:
        folders = [Path(root).expanduser()]
    else:
        roots = data_roots()
        folders = [f for folder in roots for f in (folder, folder / 'ogb')]
    names = [name.replace('-', '_') + end for end in ('', '_pyg')]
    for folder in folders:
        if any((folder / inner).is_dir() for inner in names):
            return folder
    if not download:
        searched = ', '.join(str(folder) for folder in folders)
        raise FileNotFoundError(
            f"no dataset '{name}': the folder {names[0]} is in none of the "
            f'folders searched ({searched}); give --root, set TEG_DATA, or '
            f'fetch it with --download'
        )
    if root is None and os.environ.get('TEG_DATA'):
        return data_roots()[0] / 'ogb'
    return folders[-1]


def _check(data: Data, split: dict[str, Tensor], where: str) -> None:
    """Refuse files that do not fit together before hours are spent."""
    num_nodes = data.num_nodes
    parts = torch.cat(list(split.values()))
    if data.y.size(0) != num_nodes:
        problem = f'{data.y.size(0)} labels of {num_nodes} nodes'
    elif parts.numel() and not 0 <= parts.min() <= parts.max() < num_nodes:
        problem = f'split indices outside of 0 to {num_nodes - 1}'
    elif parts.unique().numel() != parts.numel():
        problem = 'nodes that are in two parts of the split'
    elif min(part.numel() for part in split.values()) == 0:
        problem = 'an empty part of the split'
    else:
        return
    raise ValueError(
        f"'{where}' is damaged: it has {problem}; move it away and give "
        f'--download'
    )


def _prepare(data: Data, params: DataParams) -> Data:
    """Return the graph that models see: features and edges, no labels."""
    edge_index, num_nodes = data.edge_index, data.num_nodes
    x = data.get('x')
    if x is None:  # before edges are added that have no features
        x = scatter(
            data.edge_attr.float(),
            edge_index[1],
            dim_size=num_nodes,
            reduce=params.edge_features,
        )  # [N, D]
    merge = to_undirected if params.undirected else coalesce
    edge_index = merge(edge_index, num_nodes=num_nodes)
    return Data(x=x.float(), edge_index=edge_index, num_nodes=num_nodes)
