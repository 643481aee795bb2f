"""What can be counted in a labelled graph, for the cards of data sets."""

from typing import Any

import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.utils import (
    homophily,
    is_undirected,
    remove_self_loops,
)

__all__ = [
    'anomaly_homophily',
    'edge_homophily',
    'graph_counts',
    'label_counts',
]


def graph_counts(data: Data) -> dict[str, Any]:
    """Numbers of nodes, edges, loops and nodes without any other edge."""
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


def label_counts(y: Tensor, anomalies: bool = True) -> dict[str, Any]:
    """Numbers of labels, and the prevalence among the labelled nodes.

    Args:
        y (Tensor): Labels, -1 if unknown, :math:`[N]`.
        anomalies (bool, optional): Whether label 1 means anomalous.
            (default: :obj:`True`)
    """
    labels = y[y >= 0]
    counts: dict[str, Any] = {
        'num_labeled': labels.numel(),
        'num_classes': labels.unique().numel(),
    }
    if anomalies:
        counts['num_anomalies'] = int(labels.sum())
        counts['prevalence'] = counts['num_anomalies'] / max(1, len(labels))
    return counts


def edge_homophily(edge_index: Tensor, y: Tensor) -> float | None:
    """Share of edges between labelled nodes that connect equal labels."""
    edge_index = _labelled(edge_index, y)
    if edge_index.size(1) == 0:
        return None
    return float(homophily(edge_index, y, method='edge'))


def anomaly_homophily(edge_index: Tensor, y: Tensor) -> float | None:
    """Share of anomalies' labelled in-neighbours that are anomalies, too."""
    src, dst = remove_self_loops(_labelled(edge_index, y))[0]
    into = y[src[y[dst] == 1]]  # labels of anomalies' neighbours
    return float(into.double().mean()) if into.numel() else None


def _labelled(edge_index: Tensor, y: Tensor) -> Tensor:
    return edge_index[:, (y >= 0)[edge_index].all(dim=0)]
