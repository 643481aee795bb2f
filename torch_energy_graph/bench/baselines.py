"""Network baselines: an MLP, three layers of PyG and BWGNN.

The defaults are those of GADBench (Adam, learning rate 0.01, 200 epochs,
patience 50) but for the width and a little dropout.
"""

from dataclasses import dataclass
from typing import Any

import torch

from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, MLP, GraphSAGE

from torch_energy_graph.bench.adjacency import (
    mean_adjacency,
    symmetric_adjacency,
)
from torch_energy_graph.bench.bwgnn import BWGNN
from torch_energy_graph.bench.networks import (
    NetworkParams,
    TrainParams,
    network,
)
from torch_energy_graph.bench.registry import register_model, with_defaults

__all__ = [
    'bwgnn',
    'gat',
    'gcn',
    'gcn_encoded',
    'mlp',
    'mlp_agg',
    'mlp_encoded',
    'mlp_labels',
    'sage',
]

ENCODED = {'hops': 2, 'encoding': 'piecewise'}


@dataclass(frozen=True)
class MLPParams(NetworkParams):
    """Parameters of ``mlp``.

    Args:
        labels (bool): Read the known labels of a node's neighbours.
    """

    labels: bool = False


@dataclass(frozen=True)
class GATParams(NetworkParams):
    """Parameters of ``gat``; heads share the width."""

    heads: int = 4


@dataclass(frozen=True)
class BWGNNParams(TrainParams):
    """Parameters of ``bwgnn``; it has order + 1 filters."""

    order: int = 2


def _sizes(data: Data, p: NetworkParams) -> dict[str, Any]:
    return {
        'in_channels': data.num_features,
        'hidden_channels': p.hidden_channels,
        'num_layers': p.num_layers,
        'out_channels': 1,
        'dropout': p.dropout,
    }


@network('mlp', MLPParams, lambda data, p: {})
def mlp(data: Data, p: MLPParams) -> torch.nn.Module:
    """Multi-layer perceptron."""
    return MLP(**_sizes(data, p))


@network(
    'gcn',
    NetworkParams,
    lambda data, p: {'edge_index': symmetric_adjacency(data)},
)
def gcn(data: Data, p: NetworkParams) -> torch.nn.Module:
    """PyG's GCN; edges are normalised once."""
    return GCN(**_sizes(data, p), normalize=False)


@network(
    'sage',
    NetworkParams,
    lambda data, p: {'edge_index': mean_adjacency(data)},
)
def sage(data: Data, p: NetworkParams) -> torch.nn.Module:
    """PyG's GraphSAGE; a sum over the mean's weights is the mean."""
    return GraphSAGE(**_sizes(data, p), aggr='sum')


@network('gat', GATParams, lambda data, p: {'edge_index': data.edge_index})
def gat(data: Data, p: GATParams) -> torch.nn.Module:
    """PyG's GAT."""
    return GAT(**_sizes(data, p), heads=p.heads)


@network(
    'bwgnn',
    BWGNNParams,
    lambda data, p: {
        'edge_index': symmetric_adjacency(data, add_self_loops=False)
    },
)
def bwgnn(data: Data, p: BWGNNParams) -> torch.nn.Module:
    """Beta wavelets."""
    return BWGNN(data.num_features, p.hidden_channels, p.order, p.dropout)


mlp_agg = register_model('mlp_agg')(with_defaults(mlp, hops=2))
mlp_encoded = register_model('mlp_encoded')(with_defaults(mlp, **ENCODED))
mlp_labels = register_model('mlp_labels')(
    with_defaults(mlp, **ENCODED, labels=True)
)
gcn_encoded = register_model('gcn_encoded')(with_defaults(gcn, **ENCODED))
