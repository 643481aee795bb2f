"""Graphs as the detector takes them: checked, and cut into two masks."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.data import GraphTable, Preprocessing, check_graph
from torch_energy_graph.ops import GraphCache

__all__ = [
    'check_graph_like',
    'edge_keywords',
    'labelled',
    'node_ids',
    'read_fields',
    'split_masks',
    'training_graph',
]


def check_graph_like(data: object) -> None:
    """TypeError if it is no graph of a detector."""
    if not isinstance(data, Data | GraphTable):
        raise TypeError(
            f"'EnergyFraudDetector' expects a Data graph or a GraphTable "
            f"(got '{type(data).__name__}'); see torch_energy_graph.data for "
            f'from_csv, from_pandas and from_hetero'
        )


def read_fields(
    data: Data, relations: bool = True, edge_features: bool = True
) -> Data:
    """The checked fields that are read, without labels.

    Args:
        data (Data): A graph.
        relations (bool, optional): Whether to keep :obj:`edge_type`.
            (default: :obj:`True`)
        edge_features (bool, optional): Whether to keep :obj:`edge_attr`.
            (default: :obj:`True`)
    """
    check_graph(Data(x=data.x, edge_index=data.edge_index))
    edges = data.edge_index.long()
    graph = Data(x=data.x, edge_index=edges, num_nodes=data.x.size(0))
    if relations and data.get('edge_type') is not None:
        graph.edge_type = _per_edge('edge_type', data.edge_type, edges)
    if edge_features and data.get('edge_attr') is not None:
        attr = _per_edge('edge_attr', data.edge_attr, edges)
        attr = attr.unsqueeze(-1) if attr.dim() == 1 else attr.flatten(1)
        attr = attr.to(data.x.dtype)  # [E, D]
        if not bool(torch.isfinite(attr).all()):
            raise ValueError(
                'expected finite edge_attr (got NaN or Inf); impute or drop '
                'those edges'
            )
        graph.edge_attr = attr
    return graph


def edge_keywords(data: Data) -> dict[str, Any]:
    """What a network reads beside features, with the edges sorted once."""
    keywords: dict[str, Any] = {}
    if 'edge_type' in data:  # the layer lifts and sorts the edges itself
        keywords = {'edge_index': data.edge_index, 'edge_type': data.edge_type}
    else:
        cache = GraphCache.from_edge_index(data.edge_index, data.num_nodes)
        keywords = {'edge_index': cache}
    if 'edge_attr' in data:
        keywords['edge_attr'] = data.edge_attr
    return keywords


def node_ids(data: Data | GraphTable) -> list[Any]:
    """The ids of the nodes, in their order; numbers from 0 if none."""
    if isinstance(data, GraphTable):
        return list(data.node_id)
    ids = data.get('node_id')
    return list(range(data.num_nodes)) if ids is None else list(ids)


def split_masks(
    data: Data | GraphTable,
    train: Tensor | None,
    val: Tensor | None,
    val_size: float,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Training and validation nodes, bool :math:`[N]` each.

    Args:
        data (Data or GraphTable): Has labels :obj:`y`.
        train (Tensor, optional): If :obj:`None`, :obj:`data.train_mask` or,
            without one, all labelled nodes.
        val (Tensor, optional): If :obj:`None`, :obj:`data.val_mask` or,
            without one, drawn from the training nodes, stratified by label.
        val_size (float): Share of the nodes that is drawn.
        seed (int): Seed of the draw.
    """
    y = data.y
    if y is None:
        raise ValueError(
            "expected labels 'y' to fit on: 0 normal, 1 anomalous, -1 unknown"
        )
    if train is None and val is None and isinstance(data, Data):
        train, val = data.get('train_mask'), data.get('val_mask')
    known = (y >= 0).cpu()
    if train is None:
        train = known if val is None else known & ~_mask('val_mask', val, y)
    train = _mask('train_mask', train, y) & known
    if val is not None:
        val = _mask('val_mask', val, y) & known
        if bool((train & val).any()):
            raise ValueError('expected disjoint train_mask and val_mask')
        return train, val
    nodes = train.nonzero().view(-1)
    labels = y.cpu()[nodes]
    counts = [int((labels == c).sum()) for c in (0, 1)]
    if min(counts) < 2:
        raise ValueError(
            f'expected at least 2 labelled nodes of each class to draw '
            f'validation nodes from (got {counts[0]} normal and {counts[1]} '
            f'anomalous)'
        )
    _, drawn = train_test_split(
        nodes.numpy(),
        test_size=val_size,
        random_state=seed,
        stratify=labels.numpy(),
    )
    val = torch.zeros_like(train)
    val[torch.from_numpy(drawn)] = True
    return train & ~val, val


def _per_edge(name: str, value: Any, edge_index: Tensor) -> Tensor:
    if not isinstance(value, Tensor) or value.size(0) != edge_index.size(1):
        got = (
            list(value.shape)
            if isinstance(value, Tensor)
            else type(value).__name__
        )
        raise ValueError(
            f'expected {name} with one row for each of '
            f'{edge_index.size(1)} edges (got {got})'
        )
    return value


def _mask(name: str, mask: Any, y: Tensor) -> Tensor:
    if not isinstance(mask, Tensor):
        mask = torch.as_tensor(mask)
    if mask.dtype != torch.bool or mask.shape != y.shape:
        more = '; choose one column' if mask.dim() == 2 else ''
        raise ValueError(
            f'expected {name} as bool of shape {list(y.shape)} (got '
            f'{list(mask.shape)} of {mask.dtype}){more}'
        )
    return mask.cpu()


def labelled(
    data: Data | GraphTable, mask: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Labels of the labelled nodes of a mask, and which nodes these are."""
    y: NDArray[np.int64] = data.y.cpu().numpy()
    nodes = y >= 0
    if mask is not None:
        nodes &= np.asarray(mask, dtype=bool)
    return y[nodes], nodes


class TrainingGraph(NamedTuple):
    """What a fit reads.

    Attributes:
        graph: Its fields; labels outside of the masks are -1.
        preprocessing: Fitted on training nodes; :obj:`None` without tables.
        relations: How many the tables name; :obj:`None` if they do not.
    """

    graph: Data
    preprocessing: Preprocessing | None
    relations: int | None


def training_graph(
    data: Data | GraphTable,
    train: Tensor,
    val: Tensor,
    relations: bool,
    edge_features: bool,
) -> TrainingGraph:
    """The graph of a fit, without the labels that it must not see."""
    preprocessing = None
    if isinstance(data, GraphTable):
        preprocessing = Preprocessing('raw').fit(data, train)
        data = preprocessing.transform(data)
    graph = read_fields(data, relations, edge_features)
    graph.y = data.y.masked_fill(~(train | val).to(data.y.device), -1)
    number = None
    if preprocessing is not None and 'edge_type' in graph:
        number = len(preprocessing.relations_)
    return TrainingGraph(graph, preprocessing, number)
