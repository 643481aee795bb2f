"""What ood_graph.py and calibration_graph.py train: graphs and networks."""

import copy
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from torch_geometric.nn import GCN
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import to_undirected

from torch_energy_graph import datasets
from torch_energy_graph.bench.adjacency import symmetric_adjacency
from torch_energy_graph.bench.sparse_features import network_input
from torch_energy_graph.nn import EnergyTransformerConv
from torch_energy_graph.nn.models import DIFFormer
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.train import ClassifierTrainer, TrainOptions

HIDDEN = 64


class EnergyGNN(torch.nn.Module):
    """An energy transformer block between two linear maps."""

    def __init__(self, features, classes, dropout=0.5):
        super().__init__()
        self.encoder = torch.nn.Linear(features, HIDDEN)
        self.conv = EnergyTransformerConv(
            HIDDEN, num_memories=HIDDEN, num_steps=2, step_size=1.0
        )
        self.head = torch.nn.Linear(HIDDEN, classes)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x, edge_index):
        x = self.conv(self.dropout(self.encoder(x)), edge_index)
        return self.head(self.dropout(x))


@dataclass(frozen=True)
class Network:
    """How a network is built and trained.

    `build(features, classes)` gives it; `edges(data)` what it reads beside
    the features.
    """

    build: object
    edges: object
    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 200

    def inputs(self, data):
        """Keyword arguments of the network for a graph."""
        return {'x': network_input(data.x), 'edge_index': self.edges(data)}


def cached(data):
    return GraphCache.from_edge_index(data.edge_index, data.num_nodes)


def gcn(norm, dropout):
    """Two GCN layers; edges are normalised by `symmetric_adjacency`."""

    def build(features, classes):
        return GCN(
            features, HIDDEN, 2, classes, dropout, norm=norm, normalize=False
        )

    return build


def difformer(features, classes):
    return DIFFormer(features, HIDDEN, classes, dropout=0.5, use_value=False)


NETWORKS = {
    # of the GNNSafe protocol
    'GCN+BN': Network(
        gcn('batch_norm', 0.0), symmetric_adjacency, weight_decay=0.01
    ),
    'GCN': Network(gcn(None, 0.5), symmetric_adjacency),
    'EnergyTransformerConv': Network(
        EnergyGNN, cached, weight_decay=5e-3, epochs=60
    ),
    'DIFFormer': Network(difformer, cached, epochs=100),
    # without regularisation, to be over-confident
    'GCN, plain': Network(
        gcn(None, 0.0), symmetric_adjacency, weight_decay=0.0, epochs=150
    ),
}


def load_graph(name, scale_rows=True):
    """A graph whose edges go both ways; rows of features sum to 1."""
    data = copy.copy(datasets.load(name))
    data.edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
    return NormalizeFeatures()(data) if scale_rows else data


def masks_of(name, data, split):
    """Train, validation and test nodes of a stored split, with a label."""
    masks = datasets.get(name).splits['official']
    return [mask[:, split] & (data.y >= 0) for mask in masks]


def cross_entropy_of(logits, part, mask, y):
    return cross_entropy(logits(part)[mask], y[mask])


def trainer_of(
    network, data, masks, seed, objective=cross_entropy_of, **options
):
    """What trains a network and keeps its best epoch by validation loss."""
    torch.manual_seed(seed)
    model = network.build(data.num_features, int(data.y.max()) + 1)
    whole = network.inputs(data)

    def predict(model, part):
        if part.x.requires_grad:  # sparse features have no gradient
            return model(**{**whole, 'x': part.x})
        return model(**whole)

    defaults = {
        'epochs': network.epochs,
        'lr': network.lr,
        'weight_decay': network.weight_decay,
    }
    options = TrainOptions(**{**defaults, **options}, seed=seed, select='loss')
    return ClassifierTrainer(
        model, data, masks[0], masks[1], options, predict, objective
    )
