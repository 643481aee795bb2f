"""Time and memory of training steps on a grid of 64 x 64 tokens.

The same image model, once with 8 neighbours per token (sparse operator) and
once on the complete graph (dense products). Each runs in a process of its
own; the peak is that of the resident memory during the steps, above what
imports, model and image take, and the time the median of the steps.

    python benchmarks/speed/image_grid.py --out image_grid.csv
"""

import argparse

from _jobs import append_rows, interruptible, run_job

GOAL = 10


def measure(args):
    for connectivity in ('complete', 8):
        job = {
            'connectivity': connectivity,
            'side': args.side,
            'channels': args.channels,
            'heads': args.heads,
            'steps': args.steps,
            'repeats': args.repeats,
            'threads': args.threads,
        }
        (row,) = run_job('_grid_job.py', job)
        yield row


def add_ratios(rows):
    """How many times less than the first row each takes."""
    for key in ('step_cpu_s', 'step_wall_s', 'peak_mib'):
        for row in rows:
            row[f'{key}_ratio'] = rows[0][key] / max(row[key], 1e-9)
    return rows


def show(rows):
    first = rows[0]
    print(
        f'image_grid  {first["side"]} x {first["side"]} tokens, '
        f'C={first["channels"]} H={first["heads"]} T={first["steps"]}, fp32, '
        f'{first["threads"]} thread(s), torch {first["torch"]}, median of '
        f'{first["repeats"]}\n'
        f'connectivity       edges  step cpu    ratio  step wall    ratio'
        f'       peak    ratio'
    )
    for row in rows:
        print(
            f'{row["connectivity"]!s:12} {row["edges"]:11,} '
            f'{row["step_cpu_s"]:7.3g} s {row["step_cpu_s_ratio"]:7.1f}x '
            f'{row["step_wall_s"]:8.3g} s {row["step_wall_s_ratio"]:7.1f}x '
            f'{row["peak_mib"]:6.0f} MiB {row["peak_mib_ratio"]:7.1f}x'
        )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--side', type=int, default=64)
    parser.add_argument('--channels', type=int, default=64)
    parser.add_argument('--heads', type=int, default=4)
    parser.add_argument('--steps', type=int, default=12, help='T')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--repeats', type=int, default=3)
    parser.add_argument('--out', help='append the rows to this file')
    parser.add_argument('--small', action='store_true', help='8 x 8 tokens')
    args = parser.parse_args()
    if args.small:
        args.side, args.steps = 8, 2
    return args


def main():
    args = parse()
    rows = add_ratios(list(measure(args)))
    show(rows)
    if args.out:
        append_rows(args.out, rows)
    best = max(rows[1]['step_cpu_s_ratio'], rows[1]['peak_mib_ratio'])
    if not args.small and best < GOAL:
        print(f'less than {GOAL} times cheaper')
        return 1
    return 0


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
