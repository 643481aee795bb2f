"""Time of a training step under NG-EBM and JEM, against cross-entropy.

A step is forward, loss, backward and Adam. Cases: a small Wide-ResNet on
images of 32 x 32 (`wrn`), a two-layer GCN on 5,000 nodes with 64 features
(`gcn`), one of Cora's size, 2,708 nodes with 1,433 features (`cora`), and
both with a linear head (`gcn+head`, `cora+head`), for the latent mode. In a
process per case, all losses take turns on the same model; times are medians
of CPU seconds, ratios those to cross-entropy. The status is 1 if a gate
fails.

    python benchmarks/speed/ng_ebm.py --out ng_ebm.csv
"""

import argparse
from dataclasses import dataclass

from _jobs import append_rows, interruptible, run_job

CASES = ('wrn', 'gcn', 'gcn+head', 'cora', 'cora+head')
# loss, the one it is divided by, bound, and whether it is the least
GATES = {
    'wrn': [
        ('NG-EBM', 'cross-entropy', 2.5, False),
        ('JEM', 'NG-EBM', 6.0, True),
    ],
    'gcn': [
        ('NG-EBM', 'cross-entropy', 3.5, False),
        ('JEM', 'NG-EBM', 6.0, True),
    ],
    'gcn+head': [('NG-EBM latent', 'cross-entropy', 1.7, False)],
    'cora': [('JEM', 'NG-EBM', 6.0, True)],
    'cora+head': [('NG-EBM latent', 'cross-entropy', 1.7, False)],
}


@dataclass
class Gate:
    """One requirement of a ratio of times."""

    what: str
    value: float
    bound: float
    least: bool

    @property
    def holds(self):
        if self.least:
            return self.value >= self.bound
        return self.value <= self.bound

    def __str__(self):
        met = 'holds' if self.holds else 'FAILS'
        sign = '>=' if self.least else '<='
        return (
            f'gate {met}: {self.what} {self.value:.2f}x '
            f'(gate {sign} {self.bound:g}x)'
        )


def gates_of(rows):
    """Gates of one case; none of other numbers of threads or JEM steps."""
    ratio = {row['method']: row['ratio'] for row in rows}
    case = rows[0]['case']
    if rows[0]['threads'] != 1 or rows[0]['jem_steps'] != 20:
        return []
    return [
        Gate(f'{case}: {loss} / {base}', ratio[loss] / ratio[base], *rule)
        for loss, base, *rule in GATES[case]
    ]


def show(rows):
    first = rows[0]
    print(
        f'\n{first["case"]}  {first["rows"]:,} rows of '
        f'{first["features"]:,} features, {first["edges"]:,} edges, '
        f'{first["parameters"]:,} parameters, {first["threads"]} thread(s), '
        f'torch {first["torch"]}, median of {first["repeats"]}\n'
        f'{"loss":20} {"step":>9} {"wall":>9} {"ratio":>7}'
    )
    for row in rows:
        print(
            f'{row["method"]:20} {1e3 * row["step_cpu_s"]:6.1f} ms '
            f'{1e3 * row["step_wall_s"]:6.1f} ms {row["ratio"]:6.2f}x',
            flush=True,
        )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--cases', nargs='+', choices=CASES, default=CASES)
    parser.add_argument('--threads', nargs='+', type=int, default=[1])
    parser.add_argument('--repeats', type=int, default=15)
    parser.add_argument('--jem-steps', type=int, default=20)
    parser.add_argument('--out', help='append the rows to this CSV file')
    parser.add_argument(
        '--small', action='store_true', help='tiny sizes, no gates'
    )
    args = parser.parse_args()
    if args.small:
        args.repeats, args.jem_steps = 2, 2
    return args


def main():
    args, gates = parse(), []
    for threads in args.threads:
        for case in args.cases:
            job = {
                'case': case,
                'threads': threads,
                'repeats': args.repeats,
                'jem_steps': args.jem_steps,
                'small': args.small,
            }
            rows = run_job('_ng_ebm_job.py', job)
            show(rows)
            gates += gates_of(rows)
            if args.out:
                append_rows(args.out, rows)
    print()
    for gate in gates:
        print(gate)
    return int(not all(gate.holds for gate in gates))


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
