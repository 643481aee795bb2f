"""One step on a graph of the size of T-Finance, or of T-Social."""

import time

import torch
from _graphs import skewed_csr
from _jobs import serve
from _measure import versions
from et_memory import status_mib

from torch_energy_graph.losses import weighted_bce_with_logits
from torch_energy_graph.nn import EnergyTransformerConv
from torch_energy_graph.nn.models import EnergyAnomalyDetector
from torch_energy_graph.ops import GraphCache, backends

SIZES = {  # directed edges: twice the published undirected ones
    't-finance': (39_357, 42_445_086),
    't-social': (5_781_065, 146_211_016),
}
FEATURES, ANOMALIES = 10, 0.05


class Phases(dict):
    """Seconds since the last call, and the peak of memory so far."""

    def __init__(self):
        self.last = time.perf_counter()

    def end(self, name):
        now = time.perf_counter()
        self[f'{name}_s'] = round(now - self.last, 3)
        self[f'peak_after_{name}_mib'] = round(status_mib('VmHWM'), 1)
        self.last = now


def train(graph, phases):
    """A training step of a detector with T = 4, D = 128, H = 4."""
    model = EnergyAnomalyDetector(
        FEATURES, hidden_channels=128, heads=4, num_steps=4
    )
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(graph.num_dst, FEATURES)
    y = (torch.rand(graph.num_dst) < ANOMALIES).long()
    phases.end('model')
    logits = model(x, graph)
    phases.end('forward')
    loss = weighted_bce_with_logits(logits, y)
    loss.backward()
    phases.end('backward')
    optimizer.step()
    phases.end('optimizer')
    return {'channels': 128, 'num_steps': 4, 'loss': loss.item()}


@torch.inference_mode()
def infer(graph, phases):
    """One step of an energy transformer with D = 64, H = 4."""
    layer = EnergyTransformerConv(64, heads=4, num_steps=1).eval()
    x = torch.randn(graph.num_dst, 64)
    phases.end('model')
    out = layer(x, graph)
    phases.end('forward')
    moved = out.sub_(x).square_().mean().sqrt().item()
    return {'channels': 64, 'num_steps': 1, 'rms_update': moved}


def work(job):
    torch.set_num_threads(job['threads'])
    torch.manual_seed(0)
    phases = Phases()
    num_nodes, num_edges = (
        size // job['divisor'] for size in SIZES[job['graph']]
    )
    rowptr, col = skewed_csr(num_nodes, num_edges)
    phases.end('draw')
    graph = GraphCache.from_csr(rowptr, col)
    del rowptr, col
    phases.end('cache')
    step = train if job['graph'] == 't-finance' else infer
    result = step(graph, phases)
    states = backends().items()
    active = [name for name, state in states if state.active]
    yield {
        'graph': job['graph'],
        'nodes': num_nodes,
        'edges': num_edges,
        'heads': 4,
        **result,
        'backend': next(name for name in active if name != 'cuda'),
        'threads': job['threads'],
        **phases,
        **versions(),
    }


if __name__ == '__main__':
    serve(work)
