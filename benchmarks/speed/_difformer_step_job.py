"""One training step of a DIFFormer on a set of nodes: time and memory."""

import statistics
import time
from pathlib import Path

import torch
from _jobs import serve
from _measure import versions
from et_memory import status_mib

from torch_energy_graph.nn.models import DIFFormer

CLASSES = 10


def work(job):
    torch.set_num_threads(job['threads'])
    torch.manual_seed(0)
    nodes, channels = job['nodes'], job['channels']
    model = DIFFormer(
        channels, channels, CLASSES, job['layers'], use_graph=False
    )
    x, y = torch.randn(nodes, channels), torch.randint(CLASSES, (nodes,))
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    Path('/proc/self/clear_refs').write_text('5')  # resets VmHWM
    before, times = status_mib('VmRSS'), []
    for _ in range(job['repeats']):
        cpu, wall = time.process_time(), time.perf_counter()
        loss = step()
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = map(statistics.median, zip(*times, strict=True))
    yield {
        'nodes': nodes,
        'channels': channels,
        'layers': job['layers'],
        'normalize': model.convs[0].attention.normalize,
        'parameters': sum(p.numel() for p in model.parameters()),
        'threads': job['threads'],
        'repeats': job['repeats'],
        'step_cpu_s': cpu,
        'step_wall_s': wall,
        'cpu_s_per_million': cpu / nodes * 1e6,
        'peak_mib': status_mib('VmHWM') - before,
        'loss': loss,
        **versions(),
    }


if __name__ == '__main__':
    serve(work)
