"""Peak memory of full-batch training over the number of steps T.

Every case runs in a process of its own. Its peak is that of the resident
memory during three epochs, above what imports and data take.

    python benchmarks/speed/et_memory.py --dataset tolokers
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

STEPS = (4, 8, 12)


def status_mib(field):
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(field + ':'):
            return int(line.split()[1]) / 1024
    raise OSError(f'/proc/self/status has no {field}; this needs Linux')


def measure(dataset, num_steps, checkpoint, epochs):
    import torch

    from torch_energy_graph.datasets import load
    from torch_energy_graph.losses import weighted_bce_with_logits
    from torch_energy_graph.nn.models import EnergyAnomalyDetector
    from torch_energy_graph.ops import GraphCache

    data = load(dataset)
    nodes = data.y >= 0
    torch.manual_seed(0)
    model = EnergyAnomalyDetector(
        data.num_features,
        hidden_channels=64,
        heads=4,  # of 16 channels
        num_steps=num_steps,
        checkpoint=checkpoint,
    )
    optimizer = torch.optim.Adam(model.parameters())
    Path('/proc/self/clear_refs').write_text('5')
    before, seconds = status_mib('VmRSS'), []
    graph = GraphCache.from_edge_index(data.edge_index, data.num_nodes)
    for _ in range(epochs):
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = model(data.x, graph)
        weighted_bce_with_logits(logits[nodes], data.y[nodes]).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return {
        'dataset': dataset,
        'nodes': data.num_nodes,
        'edges': data.num_edges,
        'num_steps': num_steps,
        'checkpoint': checkpoint,
        'peak_mib': round(status_mib('VmHWM') - before, 1),
        'epoch_seconds': round(sorted(seconds)[len(seconds) // 2], 2),
        'threads': torch.get_num_threads(),
        'torch': torch.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--dataset', default='tolokers')
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--out', help='also append the rows to this file')
    parser.add_argument('--case', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        num_steps, checkpoint = json.loads(args.case)
        row = measure(args.dataset, num_steps, checkpoint, args.epochs)
        print(json.dumps(row))
        return
    print('checkpoint   T   peak above imports and data   epoch')
    for checkpoint in (False, True):
        for num_steps in STEPS:
            case = json.dumps([num_steps, checkpoint])
            out = subprocess.run(
                [sys.executable, *sys.argv, '--case', case],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            row = json.loads(out.splitlines()[-1])
            print(
                f'{checkpoint!s:10} {num_steps:3} {row["peak_mib"]:25.1f} MiB'
                f' {row["epoch_seconds"]:6.2f} s',
                flush=True,
            )
            if args.out:
                with open(args.out, 'a') as file:
                    file.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    main()
