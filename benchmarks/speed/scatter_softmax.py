"""Time and memory of the softmax within groups of edges against peers.

Scores [E, H] in three layouts: with the target of every edge in random
order, the same sorted, and with pointers. Measured as `energy_attention.py`.

    python benchmarks/speed/scatter_softmax.py --out softmax.csv
"""

import argparse
from itertools import product

from _jobs import compare, interruptible
from _table import add_ratios, print_rows, report

LAYOUTS = ('unsorted', 'sorted', 'ptr')


def measure(args):
    for graph, heads, layout in product(args.graphs, args.heads, LAYOUTS):
        job = {
            'graph': graph,
            'heads': heads,
            'layout': layout,
            'repeats': args.repeats,
            'methods': None,
            'without': [],
        }
        for rows in compare('_softmax_job.py', job, args.threads):
            yield add_ratios(rows)


def show(rows):
    first = rows[0]
    print_rows(
        f'scatter_softmax  {first["graph"]}: N={first["nodes"]:,} '
        f'E={first["edges"]:,} H={first["heads"]}, {first["layout"]}, '
        f'{first["threads"]} thread(s), torch {first["torch"]}, median of '
        f'{first["repeats"]}, peak above inputs',
        rows,
    )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument(
        '--graphs', nargs='+', default=['45954/3.85M'], help='or any dataset'
    )
    parser.add_argument('--heads', nargs='+', type=int, default=[1, 4, 8])
    parser.add_argument('--threads', nargs='+', type=int, default=[1, 2])
    parser.add_argument('--repeats', type=int, default=7)
    parser.add_argument('--out', help='append the rows to this CSV file')
    parser.add_argument(
        '--small',
        action='store_true',
        help='a tiny graph, one thread, three rounds, two heads',
    )
    args = parser.parse_args()
    if args.small:
        args.graphs, args.threads, args.repeats = ['small'], [1], 3
        args.heads = [2]
    return args


def main():
    args = parse()
    return report(measure(args), show, args.out)


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
