"""Training of the same model with every backend, epochs taking turns."""

from functools import partial

import torch
from _graphs import SYNTHETIC, load_edges
from _jobs import serve
from _measure import alternate, versions
from _peers import our_backends

from torch_geometric.data import Data

from torch_energy_graph.datasets import load
from torch_energy_graph.losses import weighted_bce_with_logits
from torch_energy_graph.nn.models import EnergyAnomalyDetector
from torch_energy_graph.ops import GraphCache, use_backend


def load_data(name):
    if name not in SYNTHETIC:
        return load(name)
    edge_index, num_nodes = load_edges(name)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, 10)
    y = (torch.rand(num_nodes) < 0.1).long()
    return Data(x=x, edge_index=edge_index, y=y)


def trainer(data, graph, backend):
    """A function that trains for one epoch, and its list of losses."""
    torch.manual_seed(0)
    model = EnergyAnomalyDetector(
        data.num_features, hidden_channels=64, heads=4, num_steps=4
    )
    optimizer = torch.optim.Adam(model.parameters())
    nodes, losses = data.y >= 0, []

    def epoch():
        with use_backend(backend):
            optimizer.zero_grad()
            logits = model(data.x, graph)[nodes]
            loss = weighted_bce_with_logits(logits, data.y[nodes])
            loss.backward()
            optimizer.step()
        losses.append(loss.item())

    return epoch, losses


def work(job):
    torch.set_num_threads(job['threads'])
    data = load_data(job['dataset'])
    graph = GraphCache.from_edge_index(data.edge_index, data.num_nodes)
    start = partial(trainer, data, graph)
    runs = {name: start(name) for name in ['reference', *our_backends('cpu')]}
    calls = {name: epoch for name, (epoch, _) in runs.items()}
    medians = alternate(calls, job['epochs'])
    slow, expected = medians['reference'], torch.tensor(runs['reference'][1])
    at = 0 if job['threads'] == 1 else 1  # CPU, or wall if threaded
    for name, (_, losses) in runs.items():
        cpu, wall = medians[name]
        gap = (torch.tensor(losses) - expected).abs().max()
        yield {
            'dataset': job['dataset'],
            'nodes': data.num_nodes,
            'edges': data.num_edges,
            'threads': job['threads'],
            'epochs': job['epochs'],
            'backend': name,
            'epoch_cpu_s': cpu,
            'epoch_wall_s': wall,
            'ratio': slow[at] / medians[name][at],
            'loss_difference': gap.item(),
            'last_loss': losses[-1],
            **versions(),
        }


if __name__ == '__main__':
    serve(work)
