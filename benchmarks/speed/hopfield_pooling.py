"""Time and memory of Hopfield pooling against a padded dense form.

Two batches of 64 bags: uniform ones of 200 elements, where the dense form
pads nothing, and 63 of 20 with one of 20,000. Both sides have the same
weights. Measured as `energy_attention.py`; `fwd+bwd` includes gradients of
the elements and of all weights.

`--memory` measures instead the peak of training steps on 20 bags of 300,000
elements, of which the best 10 % take part; it has to stay below 8 GiB, the
elements included.

    python benchmarks/speed/hopfield_pooling.py --out pooling.csv
    python benchmarks/speed/hopfield_pooling.py --memory --out memory.jsonl
"""

import argparse
from itertools import product

from _jobs import append_rows, compare, interruptible, run_job
from _table import add_ratios, print_rows, report

BAGS = ('uniform', 'skewed')
LIMIT_MIB = 8 * 1024


def measure(args):
    for bags, steps in product(BAGS, args.steps):
        job = {
            'bags': bags,
            'steps': steps,
            'heads': args.heads,
            'channels': args.channels,
            'repeats': args.repeats,
            'small': args.small,
            'methods': None,
            'without': [],
        }
        for rows in compare('_pooling_job.py', job, args.threads):
            yield add_ratios(rows)


def show(rows):
    first = rows[0]
    print_rows(
        f'hopfield_pooling  {first["bags"]}: {first["num_bags"]} bags of '
        f'{first["elements"]:,} elements, C={first["channels"]} '
        f'H={first["heads"]}, {first["steps"]} step(s), fp32, '
        f'{first["threads"]} thread(s), torch {first["torch"]}, median of '
        f'{first["repeats"]}, peak above inputs',
        rows,
    )


def memory(args):
    """Peak of training on huge bags; status 1 if it is above the limit."""
    job = {
        'task': 'huge',
        'threads': args.threads[0],
        'bags': 2 if args.small else 20,
        'size': 1_000 if args.small else 300_000,
        'heads': args.heads,
        'channels': args.channels,
        'top_k': 0.1,
        'train_steps': 2,
    }
    (row,) = run_job('_pooling_job.py', job)
    print(
        f'{row["num_bags"]} bags of {row["size"]:,} elements, '
        f'C={row["channels"]} H={row["heads"]}, top {row["top_k"]:.0%}: peak '
        f'{row["peak_mib"] / 1024:.2f} GiB, of which elements '
        f'{row["elements_mib"] / 1024:.2f} GiB, {row["step_s"]:.3g} s per '
        f'training step, loss {row["first_loss"]:.4f} to '
        f'{row["last_loss"]:.4f}'
    )
    if args.out:
        append_rows(args.out, [row])
    if row['peak_mib'] > LIMIT_MIB:
        print(f'more than {LIMIT_MIB / 1024:.0f} GiB')
        return 1
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--steps', nargs='+', type=int, default=[1, 3])
    parser.add_argument('--heads', type=int, default=4)
    parser.add_argument('--channels', type=int, default=64)
    parser.add_argument('--threads', nargs='+', type=int, default=[1, 2])
    parser.add_argument('--repeats', type=int, default=7)
    parser.add_argument(
        '--memory', action='store_true', help='train on huge bags instead'
    )
    parser.add_argument('--out', help='append the rows to this file')
    parser.add_argument(
        '--small',
        action='store_true',
        help='few elements, one thread, three rounds',
    )
    args = parser.parse_args()
    if args.small:
        args.threads, args.repeats = [1], 3
    return args


def main():
    args = parse()
    if args.memory:
        return memory(args)
    return report(measure(args), show, args.out)


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
