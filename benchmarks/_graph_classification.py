"""What benchmarks/graph_classification.py compares, and how it trains."""

import copy
import time
from functools import cache, partial

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch.nn import BatchNorm1d, Linear, ModuleList, ReLU, Sequential

from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN, GIN, MLP, GINConv, GPSConv
from torch_geometric.nn.resolver import aggregation_resolver
from torch_geometric.transforms import AddRandomWalkPE

from torch_energy_graph.datasets.npz_graph_set import NpzGraphSet
from torch_energy_graph.nn.models.energy_transformer import EnergyTransformer

FOLDS, WALKS = 10, 8
LARGE = 200  # nodes of a graph, from which all pairs are too many
TRAINING = {
    'lr': [0.002, 0.01],  # tried on every fold, chosen on its validation part
    'tuning_share': 0.2,  # of the epochs, for each of them
    'batch_size': 64,
    'weight_decay': 0.01,
    'clip': 1.0,
}


class Energy(torch.nn.Module):
    """Ours; the other models get as many parameters."""

    hidden = 32

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.net = EnergyTransformer(
            in_channels,
            self.hidden,
            out_channels,
            num_blocks=2,
            num_steps=2,
            heads=4,
            step_size='learn',
            readout='cls',
            modulation_channels=16,
            pe_channels=WALKS,
        )

    def forward(self, data):
        return self.net(
            data.x,
            data.edge_index,
            pe=data.random_walk_pe,
            batch=data.batch,
            batch_size=data.num_graphs,
        )


class Peer(torch.nn.Module):
    """A network of PyG between an embedding and an MLP on pooled nodes."""

    def __init__(self, net, readout, in_channels, out_channels, hidden, head):
        super().__init__()
        self.embedding = Linear(in_channels + WALKS, hidden)
        self.net = net(hidden)
        self.readout = aggregation_resolver(readout)
        self.head = MLP([hidden, head, out_channels], norm=None)

    def forward(self, data):
        x = self.embedding(torch.cat([data.x, data.random_walk_pe], -1))
        x = self.net(x, data.edge_index, data.batch)
        x = self.readout(x, data.batch, dim_size=data.num_graphs)
        return self.head(x)


class Basic(torch.nn.Module):
    """One of PyG's basic networks, with batch normalisation."""

    def __init__(self, kind, hidden, num_layers=4):
        super().__init__()
        self.net = kind(hidden, hidden, num_layers, norm='batch_norm')

    def forward(self, x, edge_index, batch):
        return self.net(x, edge_index)


class GPS(torch.nn.Module):
    """PyG's GPSConv: GIN along the edges, attention between all nodes."""

    def __init__(self, hidden, linear=False, num_layers=2, heads=2):
        super().__init__()
        attention = {'attn_type': 'multihead'}
        if linear:
            attention = {
                'attn_type': 'performer',
                'attn_kwargs': {'head_channels': hidden // heads},
            }
        self.convs = ModuleList(
            GPSConv(
                hidden,
                GINConv(
                    Sequential(
                        Linear(hidden, hidden),
                        BatchNorm1d(hidden),
                        ReLU(),
                        Linear(hidden, hidden),
                    )
                ),
                heads=heads,
                **attention,
            )
            for _ in range(num_layers)
        )

    def forward(self, x, edge_index, batch):
        for conv in self.convs:
            x = conv(x, edge_index, batch)
        return x


# how to build the network of a peer, and its readout
PEERS = {
    'GIN': (partial(Basic, GIN), 'sum'),
    'GCN': (partial(Basic, GCN), 'mean'),
    'GPS': (GPS, 'mean'),
    'GPS, Performer': (partial(GPS, linear=True), 'mean'),
}
MODELS = ('EnergyTransformer', 'GIN', 'GCN', 'GPS')


def load(name, root=None):
    """Graphs with return probabilities of random walks; number of classes."""
    graphs = NpzGraphSet(name, root)
    walks = AddRandomWalkPE(WALKS)
    data = [walks(graph) for graph in graphs]
    return data, graphs.num_node_attributes, graphs.num_classes


def folds(data):
    """Fold of every graph: ten parts with equal shares of the classes."""
    y = np.array([int(graph.y) for graph in data])
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    out = np.empty(len(y), dtype=int)
    for k, (_, part) in enumerate(splitter.split(y, y)):
        out[part] = k
    return out


def split(data, fold, num_attributes):
    """Training, validation and test graphs; numbers scaled by the first."""
    number = folds(data)
    held = {'val': (fold + 1) % FOLDS, 'test': fold}
    picks = {key: np.flatnonzero(number == k) for key, k in held.items()}
    others = [k for k in range(FOLDS) if k not in held.values()]
    picks['train'] = np.flatnonzero(np.isin(number, others))
    parts = {
        key: [copy.copy(data[i]) for i in pick] for key, pick in picks.items()
    }
    x = torch.cat([graph.x for graph in parts['train']])[:, :num_attributes]
    scale = torch.ones(data[0].x.size(1))
    shift = torch.zeros_like(scale)
    if num_attributes:
        shift[:num_attributes] = x.mean(0)
        scale[:num_attributes] = x.std(0).clamp(min=1e-6)
    for graph in (graph for part in parts.values() for graph in part):
        graph.x = (graph.x - shift) / scale
    return parts


def name_of(model, data):
    """GPS attends to all pairs where graphs are small enough."""
    largest = max(graph.num_nodes for graph in data)
    return 'GPS, Performer' if model == 'GPS' and largest > LARGE else model


def build(name, in_channels, out_channels, seed=0):
    """A model with about as many parameters as ours."""
    sizes = widths(name, in_channels, out_channels)
    torch.manual_seed(seed)
    return make(name, in_channels, out_channels, *sizes)


def make(name, in_channels, out_channels, *sizes):
    if name == 'EnergyTransformer':
        return Energy(in_channels, out_channels)
    net, readout = PEERS[name]
    return Peer(net, readout, in_channels, out_channels, *sizes)


@cache
def widths(name, in_channels, out_channels):
    """Width of a peer and of its head, for as many parameters as ours."""
    if name == 'EnergyTransformer':
        return ()

    def size(*sizes):
        return count(make(name, in_channels, out_channels, *sizes))

    target = count(Energy(in_channels, out_channels))
    hidden = min(range(16, 65, 4), key=lambda c: abs(size(c, c) - target))
    # the head takes what is left
    rest = target - size(hidden, hidden)
    head = hidden + round(rest / (hidden + 1 + out_channels))
    return hidden, max(head, hidden // 2)


def count(model):
    return sum(weight.numel() for weight in model.parameters())


def fit(model, parts, epochs, lr, seed, settings):
    """Trains; returns the least validation loss, its epoch and its state."""
    torch.manual_seed(seed)
    loader = DataLoader(parts['train'], settings['batch_size'], shuffle=True)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=lr, weight_decay=settings['weight_decay']
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    best = float('inf'), 0, None
    for epoch in range(1, epochs + 1):
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(
                model.parameters(), settings['clip']
            )
            optimizer.step()
        schedule.step()
        found = score(model, parts['val'], settings['batch_size'])['loss']
        if found < best[0]:
            best = found, epoch, copy.deepcopy(model.state_dict())
    return best


@torch.no_grad()
def score(model, graphs, batch_size):
    """Mean cross-entropy and accuracy of the model in eval mode."""
    model.eval()
    loss = right = 0.0
    for batch in DataLoader(graphs, batch_size):
        logits = model(batch)
        loss += torch.nn.functional.cross_entropy(
            logits, batch.y, reduction='sum'
        ).item()
        right += (logits.argmax(-1) == batch.y).sum().item()
    return {'loss': loss / len(graphs), 'accuracy': right / len(graphs)}


def run_fold(name, parts, num_classes, epochs, seed, settings):
    """Chooses the learning rate, trains, and measures the test part once."""
    start = time.process_time()
    in_channels = parts['train'][0].x.size(1)

    def train(lr, length):
        model = build(name, in_channels, num_classes, seed)
        return model, fit(model, parts, length, lr, seed, settings)

    short = max(1, round(epochs * settings['tuning_share']))
    tried = {lr: train(lr, short)[1][0] for lr in settings['lr']}
    lr = min(tried, key=tried.get)
    model, (_, epoch, state) = train(lr, epochs)
    if state is None:
        raise FloatingPointError(f'{name} has no finite validation loss')
    model.load_state_dict(state)
    measured = {
        key: score(model, parts[key], settings['batch_size'])
        for key in ('val', 'test')
    }
    return {
        'status': 'ok',
        'network': name,
        **measured,
        'lr': lr,
        'tried': {str(key): value for key, value in tried.items()},
        'best_epoch': epoch,
        'num_parameters': count(model),
        'graphs': {key: len(part) for key, part in parts.items()},
        'seconds': round(time.process_time() - start, 2),
    }
