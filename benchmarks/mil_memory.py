"""Peak memory of training HopfieldClassifier on huge bags.

20 bags of 300,000 instances, of which the best 10 % take part: they are found
by a pass without gradients, and only they are embedded again. The peak of
resident memory over two steps, instances included, is measured in a process
of its own and has to stay below 8 GiB.

    python benchmarks/mil_memory.py --out mil_memory.jsonl
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / 'speed'))
from _jobs import append_rows
from et_memory import status_mib

LIMIT_MIB = 8 * 1024


def measure(case):
    """The row of a case: peak above imports, seconds and losses."""
    import torch

    from torch_energy_graph.datasets.bags import Bags
    from torch_energy_graph.nn.models.hopfield_classifier import (
        HopfieldClassifier,
    )
    from torch_energy_graph.train.bags import BagOptions, BagTrainer

    torch.set_num_threads(1)
    before = status_mib('VmRSS')
    Path('/proc/self/clear_refs').write_text('5')  # resets VmHWM
    count, size, channels = case['bags'], case['size'], case['channels']
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(count * size, channels, generator=gen)
    ptr = torch.arange(count + 1) * size
    y = torch.arange(count) % 2
    x[ptr[:-1], :] += 4.0 * y.view(-1, 1)  # one witness
    torch.manual_seed(0)
    model = HopfieldClassifier(channels, top_k=case['top_k'])
    trainer = BagTrainer(
        model,
        Bags(x, ptr, y),
        torch.arange(count),
        BagOptions(batch_bags=case['batch_bags'], lr=0.001),
    )
    start = time.process_time()
    losses = [trainer.run_epoch() for _ in range(2)]
    return {
        **case,
        'instances_mib': x.numel() * x.element_size() / 2**20,
        'peak_mib': round(status_mib('VmHWM') - before, 1),
        'epoch_cpu_s': round((time.process_time() - start) / 2, 2),
        'losses': losses,
        'torch': torch.__version__,
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--channels', type=int, default=64)
    add('--batch-bags', type=int, help='bags per step (all)')
    add('--small', action='store_true', help='2 bags of 1,000 instances')
    add('--out', help='append the row to this file')
    add('--case', help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.case:
        print(json.dumps(measure(json.loads(args.case))))
        return 0
    case = {
        'bags': 2 if args.small else 20,
        'size': 1_000 if args.small else 300_000,
        'channels': args.channels,
        'batch_bags': args.batch_bags,
        'top_k': 0.1,
    }
    done = subprocess.run(
        [sys.executable, __file__, '--case', json.dumps(case)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    row = json.loads(done.stdout.splitlines()[-1])
    print(
        f'{row["bags"]} bags of {row["size"]:,} instances of '
        f'{row["channels"]} channels, top {row["top_k"]:.0%}: peak '
        f'{row["peak_mib"] / 1024:.2f} GiB, of which instances '
        f'{row["instances_mib"] / 1024:.2f} GiB; {row["epoch_cpu_s"]} CPU '
        f'seconds per epoch'
    )
    if args.out:
        append_rows(args.out, [row])
    if row['peak_mib'] > LIMIT_MIB:
        print(f'more than {LIMIT_MIB / 1024:.0f} GiB')
        return 1
    return 0


if __name__ == '__main__':
    raise SystemExit(main())
