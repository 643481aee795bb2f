"""Time and memory of energy attention against peers.

In a process per graph and number of threads, all sides take turns; times are
medians of CPU seconds and of wall seconds. Ratios are those of CPU times
with one thread, and of wall times with more. Memory is the peak above the
inputs (graph and its caches included), in a process per side, with the first
number of threads.

The layers compute another function, with one aggregated output. They get a
sorted `EdgeIndex`; those called `adj` get a `SparseTensor`. `teg torch` is
PyTorch's SDDMM and SpMM.

    python benchmarks/speed/energy_attention.py --out speed.csv
"""

import argparse

from _jobs import compare, interruptible
from _table import add_ratios, print_rows, report

GRAPHS = ['10k/500k', '45954/3.85M', 'tolokers', 'yelpchi_rur']


def measure(args, graph):
    """Rows of one graph, for each number of threads."""
    job = {
        'graph': graph,
        'heads': args.heads,
        'channels': args.channels,
        'repeats': args.repeats,
        'methods': args.methods,
        'without': ['torch.compile'] if args.small else [],
    }
    for rows in compare('_attention_job.py', job, args.threads):
        yield [{**row, **of_ceiling(row)} for row in add_ratios(rows)]


def of_ceiling(row):
    """Shares of the gather ceiling, by CPU time.

    Every edge gathers two rows [H * Y] forward and four backward; the
    ceiling is the time of gathering one.
    """
    top, forward = row['ceiling_cpu_s'], row['forward_cpu_s']
    if top is None:
        return {'forward_of_ceiling': None, 'backward_of_ceiling': None}
    backward = row['train_cpu_s'] - forward
    return {
        'forward_of_ceiling': 2 * top / forward,
        'backward_of_ceiling': 4 * top / backward,
    }


def show(rows):
    first = rows[0]
    print_rows(
        f'energy_attention  {first["graph"]}: N={first["nodes"]:,} '
        f'E={first["edges"]:,} H={first["heads"]} Y={first["channels"]} '
        f'{first["dtype"]}, {first["threads"]} thread(s), torch '
        f'{first["torch"]}, median of {first["repeats"]}, peak above inputs',
        rows,
    )
    if first['forward_of_ceiling'] is None:
        print('gather ceiling: not measured, it needs a C compiler')
    for row in rows:
        if row['forward_of_ceiling'] is not None:
            print(
                f'{row["method"]:20} of the gather ceiling: '
                f'forward {row["forward_of_ceiling"]:.0%}, '
                f'backward {row["backward_of_ceiling"]:.0%}'
            )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument(
        '--graphs', nargs='+', default=GRAPHS, help='or any dataset'
    )
    parser.add_argument(
        '--methods',
        nargs='+',
        help='names as in the table; ratios are those to the first',
    )
    parser.add_argument('--threads', nargs='+', type=int, default=[1, 2])
    parser.add_argument('--repeats', type=int, default=7)
    parser.add_argument('--heads', type=int, default=4)
    parser.add_argument('--channels', type=int, default=32)
    parser.add_argument('--out', help='append the rows to this CSV file')
    parser.add_argument(
        '--small',
        action='store_true',
        help='a tiny graph, one thread, three rounds, no torch.compile',
    )
    args = parser.parse_args()
    if args.small:
        args.graphs, args.threads, args.repeats = ['small'], [1], 3
        print('torch.compile: left out by --small, it starts slowly')
    return args


def main():
    args = parse()
    results = (rows for graph in args.graphs for rows in measure(args, graph))
    return report(results, show, args.out)


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
