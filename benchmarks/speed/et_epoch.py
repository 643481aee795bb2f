"""Seconds per epoch of training an energy transformer, by backend.

D = 64, T = 4, H = 4, full batch, from the same weights; the backends take
turns, epoch by epoch. `reference` is the formula edge by edge in plain
PyTorch, to which ratios and differences of losses refer.

    python benchmarks/speed/et_epoch.py --out epochs.csv
"""

import argparse

from _jobs import append_rows, interruptible, run_job

SAME_LOSS = 1e-4


def show(rows):
    first = rows[0]
    print(
        f'\net_epoch  {first["dataset"]}: N={first["nodes"]:,} '
        f'E={first["edges"]:,} D=64 T=4 H=4, {first["threads"]} thread(s), '
        f'torch {first["torch"]}, median of {first["epochs"]} epochs\n'
        'backend          cpu       wall    ratio    last loss  difference'
    )
    for row in rows:
        print(
            f'{row["backend"]:10} {row["epoch_cpu_s"]:7.3f} s '
            f'{row["epoch_wall_s"]:8.3f} s {row["ratio"]:7.1f}x '
            f'{row["last_loss"]:12.6f} {row["loss_difference"]:11.0e}',
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--dataset', default='tolokers')
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--threads', nargs='+', type=int, default=[1])
    parser.add_argument('--out', help='append the rows to this CSV file')
    parser.add_argument(
        '--small', action='store_true', help='a tiny random graph'
    )
    args = parser.parse_args()
    worst = 0.0
    for threads in args.threads:
        job = {
            'dataset': 'small' if args.small else args.dataset,
            'epochs': args.epochs,
            'threads': threads,
        }
        rows = run_job('_epoch_job.py', job)
        show(rows)
        if args.out:
            append_rows(args.out, rows)
        worst = max(worst, *(row['loss_difference'] for row in rows))
    if worst > SAME_LOSS:
        print(f'the losses differ by {worst:.0e}')
        return 1
    return 0


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
