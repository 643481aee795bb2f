"""One step on synthetic graphs of the size of T-Finance and T-Social.

A training step (T = 4, D = 128, H = 4) on the first, an energy transformer
step under inference mode (D = 64, H = 4) on the second, each in a process of
its own. The graphs are skewed, and drawn directly as int32 CSR. Memory is
all that is resident: libraries, graph and drawing it included.

    python benchmarks/speed/large_graphs.py --out large.jsonl
"""

import argparse

from _jobs import append_rows, interruptible, run_job

GRAPHS = ('t-finance', 't-social')


def show(row):
    print(
        f'\nlarge_graphs  {row["graph"]}: N={row["nodes"]:,} '
        f'E={row["edges"]:,} D={row["channels"]} T={row["num_steps"]} '
        f'H={row["heads"]}, backend {row["backend"]}, {row["threads"]} '
        f'thread(s), torch {row["torch"]}\n'
        f'phase           time   peak so far'
    )
    for name, seconds in row.items():
        if name.endswith('_s'):
            phase = name.removesuffix('_s')
            peak = row[f'peak_after_{phase}_mib'] / 1024
            print(f'{phase:10} {seconds:7.1f} s {peak:9.2f} GiB', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--graphs', nargs='+', choices=GRAPHS, default=GRAPHS)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--out', help='append the rows as JSON lines')
    parser.add_argument(
        '--small', action='store_true', help='sizes divided by 1,000'
    )
    args = parser.parse_args()
    for graph in args.graphs:
        job = {
            'graph': graph,
            'threads': args.threads,
            'divisor': 1_000 if args.small else 1,
        }
        (row,) = run_job('_large_job.py', job)
        show(row)
        if args.out:
            append_rows(args.out, [row])
    return 0


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
