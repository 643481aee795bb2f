"""Time and memory of DIFFormer's layer against its released form and peers.

In a process per case, all sides take turns; times are medians of CPU seconds
and of wall seconds, ratios those of CPU times. Memory is the peak above the
inputs, in a process per side. The graph of `teg global` and `teg node` is
sorted before, as for a graph that is used many times; `COO` sorts it in every
call, as the released form does. Errors are those of output and gradients
against the released form in float64. The status is 1 if a gate fails.

With `--scaling`, instead: one training step of whole models without a graph,
from 10,000 nodes to 2 million, each size in a process of its own, and of the
released setting for large graphs (3 layers of 128 channels, 100,000 nodes).

    python benchmarks/speed/difformer.py --out layers.csv
    python benchmarks/speed/difformer.py --scaling --out scaling.csv
"""

import argparse

from _difformer_gates import gates_of
from _jobs import append_rows, compare, interruptible, run_job
from _table import add_ratios, print_rows, report

SIZES = [10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000]


def measure(args, degree, heads):
    """Rows of one case, for each number of threads."""
    job = {
        'nodes': args.nodes,
        'channels': args.channels,
        'heads': heads,
        'degree': degree,
        'repeats': args.repeats,
        'methods': args.methods,
        'without': [],
    }
    for rows in compare('_difformer_job.py', job, args.threads):
        yield add_ratios(rows)


def show(rows):
    first = rows[0]
    print_rows(
        f'difformer layer  N={first["nodes"]:,} E={first["edges"]:,} '
        f'H={first["heads"]} C={first["channels"]} {first["dtype"]}, '
        f'{first["threads"]} thread(s), torch {first["torch"]}, median of '
        f'{first["repeats"]}, peak above inputs',
        rows,
    )
    for row in rows:
        if row['error'] is not None:
            print(f'{row["method"]:20} error {row["error"]:.0e}')


def layers(args):
    """Status of the comparison of single layers."""
    gates = []
    status = report(cases(args, gates), show, args.out)
    print()
    for gate in gates:
        print(gate)
    return max(status, int(not all(gate.holds for gate in gates)))


def cases(args, gates):
    """Rows of all cases; their gates are added to a list."""
    for degree in args.degrees:
        for heads in args.heads:
            for rows in measure(args, degree, heads):
                gates += gates_of(rows)
                yield rows


def scaling(args):
    """Status of the table of training steps."""
    cases = [(nodes, 64, 2) for nodes in args.sizes]
    if not args.small:
        cases.append((100_000, 128, 3))
    print('nodes      channels layers     step  per million       peak')
    for nodes, channels, num_layers in cases:
        job = {
            'nodes': nodes,
            'channels': channels,
            'layers': num_layers,
            'repeats': args.repeats,
            'threads': args.threads[0],
        }
        (row,) = run_job('_difformer_step_job.py', job)
        print(
            f'{nodes:<10,} {channels:8} {num_layers:6} '
            f'{row["step_cpu_s"]:6.2f} s {row["cpu_s_per_million"]:10.2f} s '
            f'{row["peak_mib"]:6.0f} MiB',
            flush=True,
        )
        if args.out:
            append_rows(args.out, [row])
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--nodes', type=int, default=100_000)
    parser.add_argument('--heads', nargs='+', type=int, default=[1, 4])
    parser.add_argument(
        '--degrees',
        nargs='+',
        type=int,
        default=[0, 21],
        help='edges per node of the graphs, odd; 0 for none',
    )
    parser.add_argument('--channels', type=int, default=64)
    parser.add_argument(
        '--methods',
        nargs='+',
        help='names as in the table; ratios are those to the first',
    )
    parser.add_argument('--threads', nargs='+', type=int, default=[1])
    parser.add_argument('--repeats', type=int, default=7)
    parser.add_argument(
        '--scaling', action='store_true', help='training steps of models'
    )
    parser.add_argument('--sizes', nargs='+', type=int, default=SIZES)
    parser.add_argument('--out', help='append the rows to this CSV file')
    parser.add_argument(
        '--small', action='store_true', help='tiny sizes, three rounds'
    )
    args = parser.parse_args()
    if args.small:
        args.nodes, args.channels, args.repeats = 500, 16, 3
        args.degrees, args.sizes = [0, 5], [200, 400]
    return args


def main():
    args = parse()
    return scaling(args) if args.scaling else layers(args)


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
