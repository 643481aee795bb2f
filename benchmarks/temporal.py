"""Forecasts of node signals: the table of docs/temporal.md.

Each network is trained on the first fifth of the windows, its epoch is chosen
on the second, and it is measured once on the rest. Rows marked 'as released'
repeat the broadcast loss of the released code.
"""

import argparse
import csv
import io
import statistics
import sys
from pathlib import Path

from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.store import write_atomic

sys.path.insert(0, str(Path(__file__).parent))
from _temporal import (
    BASELINES,
    LAGS,
    NETWORKS,
    ORACLES,
    measures,
    network_row,
    released_task,
    right_task,
)

KEY = ('dataset', 'method', 'graph', 'linear', 'loss', 'seed')
VALUES = ('best_epoch', 'val_loss', 'test_mse', 'test_mae', 'test_released')
RELEASED_SETS = ('chickenpox', 'england_covid')
RELEASED = ('GCN only', 'DIFFormer-s, global norm', 'DIFFormer-a')
# the global norm is mean pooling, and one of them is enough
LINEAR = tuple(name for name in NETWORKS if 'global' not in name)


def plan(datasets, methods, seeds):
    """Keys of all rows, in the order of the table."""
    for name in datasets:
        variants = [('', 'right', NETWORKS), ('yes', 'right', LINEAR)]
        simple = [(method, 'right') for method in BASELINES]
        if name in RELEASED_SETS:
            variants.append(('', 'as released', RELEASED))
            simple += [(m, 'as released') for m in ('constant', *ORACLES)]
        for method, loss in simple:
            yield name, method, '', '', loss, ''
        for linear, loss, networks in variants:
            for method in (m for m in networks if m in methods):
                for graph in ('yes',) if method == 'GCN only' else ('yes', ''):
                    for seed in range(seeds):
                        yield name, method, graph, linear, loss, str(seed)


def in_order(rows):
    """Rows in the order of a run of everything."""
    seeds = 1 + max((int(key[-1]) for key in rows if key[-1]), default=0)
    keys = plan(LAGS, NETWORKS, seeds)
    return {key: rows[key] for key in keys if key in rows}


def run(key, tasks, epochs):
    """The row of a key."""
    name, method, graph, linear, loss, seed = key
    released = loss == 'as released'
    task = tasks(name, released)
    if not seed:
        return measures(task, {**BASELINES, **ORACLES}[method](task))
    return network_row(
        task,
        int(seed),
        epochs,
        released,
        use_graph=bool(graph),
        linear_skip=bool(linear),
        weighted_degree=not released,
        **NETWORKS[method],
    )


def read_rows(path):
    """Rows by key of a CSV file, none if there is no file."""
    try:
        with open(path, newline='', encoding='utf-8') as file:
            return {
                tuple(row[k] for k in KEY): {k: row[k] for k in VALUES}
                for row in csv.DictReader(file)
            }
    except FileNotFoundError:
        return {}


def csv_text(rows):
    file = io.StringIO()
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(KEY + VALUES)
    for key, row in rows.items():
        writer.writerow([*key, *(_digits(row.get(v, '')) for v in VALUES)])
    return file.getvalue()


def _digits(value):
    return f'{value:.6g}' if isinstance(value, float) else value


def report(rows, command):
    """Tables of means and sample deviations over seeds, in Markdown."""
    about = environment()
    versions = ', '.join(f'{k} {v}' for k, v in about['versions'].items())
    lines = [
        '# Forecasts of node signals',
        '',
        f'`{command}`, commit {about["git"]}, {versions}.',
    ]
    groups = {}
    for key, row in rows.items():
        groups.setdefault(key[:-1], []).append(row)
    for dataset, loss in dict.fromkeys((k[0], k[4]) for k in groups):
        lines += ['', f'## {dataset}, loss {loss}', '']
        lines += ['| method | graph | linear term | test MSE | test MAE |'
                  ' released measure | best epoch |',
                  '|---|---|---|---|---|---|---|']  # fmt: skip
        for key, group in groups.items():
            if (key[0], key[4]) == (dataset, loss):
                cells = [key[1], key[2] or '-', key[3] or '-']
                cells += [
                    _spread(group, value)
                    for value in ('test_mse', 'test_mae', 'test_released')
                ]
                cells.append(_spread(group, 'best_epoch', 0))
                lines.append(f'| {" | ".join(cells)} |')
    return '\n'.join(lines) + '\n'


def _spread(group, value, digits=3):
    numbers = [float(row[value]) for row in group if row.get(value)]
    if not numbers:
        return '-'
    text = f'{statistics.mean(numbers):.{digits}f}'
    if len(numbers) > 1 and digits:
        text += f' ± {statistics.stdev(numbers):.{digits}f}'
    return text


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--datasets', nargs='+', default=list(LAGS), choices=list(LAGS))
    add('--methods', nargs='+', default=list(NETWORKS), choices=list(NETWORKS))
    add('--seeds', type=int, default=5)
    add('--epochs', type=int, default=200)
    add('--small', action='store_true', help='one seed, 3 epochs, in seconds')
    add('--root', help='folder of the signals')
    add('--download', action='store_true', help='fetch absent signals')
    add(
        '--out',
        default='benchmarks/results/temporal',
        help='path of the .csv and .md files, without ending',
    )
    add('--resume', action='store_true', help='keep rows of the .csv file')
    args = parser.parse_args()
    if args.small:
        args.seeds, args.epochs = 1, 3
    return args


def main():
    args = parse()
    table, known = Path(f'{args.out}.csv'), {}

    def tasks(name, released):
        make = released_task if released else right_task
        if (make, name) not in known:
            known[make, name] = make(name, args.root, args.download)
        return known[make, name]

    rows = read_rows(table) if args.resume else {}
    keys = list(plan(args.datasets, args.methods, args.seeds))
    try:
        for key in keys:
            if key not in rows:
                rows[key] = run(key, tasks, args.epochs)
                rows = in_order(rows)
                write_atomic(table, csv_text(rows))
                error = float(rows[key]['test_mse'])
                print(*filter(None, key), f'MSE {error:.3f}', flush=True)
    except KeyboardInterrupt:
        print(f'stopped; --resume goes on from {table}', file=sys.stderr)
        return 130
    command = 'python benchmarks/temporal.py'
    command += f' --epochs {args.epochs} --seeds {args.seeds}'
    write_atomic(table.with_suffix('.md'), report(rows, command))
    return 0


if __name__ == '__main__':
    sys.exit(main())
