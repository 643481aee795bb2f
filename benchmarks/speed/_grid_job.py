"""Training steps of an image model on one kind of grid."""

import statistics
import time

import torch
from _jobs import serve
from _measure import peak_rss_mib, versions

from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)

PATCH = 2  # pixels


def work(job):
    torch.set_num_threads(job['threads'])
    torch.manual_seed(0)
    side = job['side']
    model = ImageEnergyTransformer(
        side * PATCH,
        PATCH,
        hidden_channels=job['channels'],
        heads=job['heads'],
        num_steps=job['steps'],
        connectivity=job['connectivity'],
    )
    image = torch.rand(1, 1, side * PATCH, side * PATCH)
    hidden = torch.rand(1, side * side) < 0.5
    pixels = model.hidden_pixels(hidden, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    times, losses = [], []

    def step():
        wall, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = (model(image, hidden) - image)[pixels].square().mean()
        loss.backward()
        optimizer.step()
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
        losses.append(loss.item())

    peak = peak_rss_mib(step)  # the first, which also sorts the edges
    for _ in range(job['repeats']):
        step()
    cpu, wall = map(statistics.median, zip(*times[1:], strict=True))
    edges = side**4
    if model.edge_index is not None:
        edges = model.edge_index.size(1)
    yield {
        'connectivity': job['connectivity'],
        'side': side,
        'edges': edges,
        'channels': job['channels'],
        'heads': job['heads'],
        'steps': job['steps'],
        'threads': job['threads'],
        'repeats': job['repeats'],
        'step_cpu_s': cpu,
        'step_wall_s': wall,
        'peak_mib': peak,
        'first_loss': losses[0],
        'last_loss': losses[-1],
        **versions(),
    }


if __name__ == '__main__':
    serve(work)
