"""What the three benchmarks of energy scores share: runs, CSV and tables.

A unit is one trained network. It is one JSON file, written whole or not at
all, with the rows that it gives; finished units are not run again.
"""

import argparse
import csv
import io
import statistics
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

from torch_energy_graph.bench.evaluation import failure
from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.store import RunFolder, write_atomic

KEY = ('dataset', 'model', 'protocol', 'split', 'seed')
ALLOWED = 0.01  # of validation accuracy that beta may cost


def parser_of(doc, name):
    """Arguments of all three; --small shows in seconds that it works."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    add = parser.add_argument
    add('--datasets', nargs='+', help='only these')
    add('--small', action='store_true', help='few steps on little data')
    add('--runs', default=f'runs/{name}', help='folder of the units')
    add(
        '--out',
        default=f'benchmarks/results/{name}',
        help='path of the .csv and .md files, without ending',
    )
    return parser


def run_units(folder, units, work):
    """Runs what is not finished; whether all of it could be run.

    `work(unit)` returns a list of rows of JSON values. A folder knows its
    units by name and parameters, so other settings do not mix.
    """
    with folder.lock():
        todo = [unit for unit in units if not _finished(folder, unit)]
        # disable=None: no bar unless standard error is a terminal
        bar = tqdm(todo, unit='network', disable=None)
        try:
            for unit in bar:
                bar.set_postfix_str(unit.title)
                start = time.process_time()
                try:
                    rows = work(unit)
                    row = {'status': 'ok', 'rows': rows, **environment()}
                except Exception as error:
                    row = failure(unit, error)
                    print(unit.title, row['error'], file=sys.stderr)
                row['cpu_seconds'] = round(time.process_time() - start, 3)
                folder.write(unit, row)
        except KeyboardInterrupt:
            print(
                f'stopped; the same command goes on from {folder.path}',
                file=sys.stderr,
            )
            return False
    return True


def _finished(folder, unit):
    row = folder.read(unit)
    return row is not None and row['status'] == 'ok'


def weights_of(method):
    """Beta and variance of 'NG-EBM 0.1' or 'NG-EBM released'."""
    _, which = method.split()
    return (0.5, 0.5) if which == 'released' else (float(which), 0.0)


def chosen_beta(rows, seed=0):
    """The beta with the least validation NLL at a seed, of those allowed.

    None if cross-entropy or all of NG-EBM failed there.
    """
    first = [row for row in rows if row['seed'] == seed]
    plain = [row for row in first if row['method'] == 'CE']
    tried = [row for row in first if row['method'] == 'NG-EBM']
    if not plain or not tried:
        return None
    least = plain[0]['val_accuracy'] - ALLOWED
    allowed = [row for row in tried if row['val_accuracy'] >= least]
    return min(allowed or tried, key=lambda row: row['val_nll'])['beta']


def final_and_tried(rows):
    """Rows of the comparison, and those that beta was chosen by."""
    beta, final, tried = chosen_beta(rows), [], []
    for row in rows:
        if row['method'] != 'NG-EBM' or row['beta'] == beta:
            final.append(row)
        if row['method'] == 'NG-EBM' and row['seed'] == 0:
            tried.append(row)
    return final, tried


def run_two_stages(folder, names, unit_of, tried, always, seeds, work):
    """All units, after beta was chosen; or None after an interrupt.

    Methods `tried` run at seed 0, then `always` and NG-EBM with the chosen
    beta at all seeds.
    """
    units = [unit_of(name, method, 0) for name in names for method in tried]
    if not run_units(folder, units, work):
        return None
    for name in names:
        beta = chosen_beta(
            rows_of(folder, [u for u in units if u.dataset == name])
        )
        methods = [*always, *([] if beta is None else [f'NG-EBM {beta}'])]
        units += [
            unit_of(name, method, seed)
            for method in methods
            for seed in range(seeds)
            if seed or method not in tried
        ]
    return units


def rows_of(folder, units):
    """Rows of all finished units, each with the names of its unit."""
    rows = []
    for unit in units:
        stored = folder.read(unit)
        if stored is None or stored['status'] != 'ok':
            continue
        names = {key: getattr(unit, key) for key in KEY}
        rows += [{**names, **row} for row in stored['rows']]
    return rows


def csv_text(rows):
    """One line per row; absent values are empty, and `_names` left out."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [key for key in columns if not key.startswith('_')]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_digits(row.get(key, '')) for key in columns])
    return file.getvalue()


def _digits(value):
    return f'{value:.6g}' if isinstance(value, float) else value


def table(rows, by, values, scale=100, digits=1):
    """Means and sample deviations of `values` for every combination `by`."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in by), []).append(row)
    count = max((len(group) for group in groups.values()), default=0)
    lines = [f'| {" | ".join([*by, *values])} |']
    lines.append('|' + '---|' * len(by) + '---:|' * len(values))
    for key, group in groups.items():
        cells = [str(part) for part in key]
        if len(group) < count:
            cells[-1] += f' ({len(group)} of {count})'
        for value in values:
            found = [row.get(value) for row in group]
            numbers = [scale * n for n in found if n is not None]
            cells.append(_spread(numbers, digits))
        lines.append(f'| {" | ".join(cells)} |')
    return '\n'.join(lines)


def _spread(numbers, digits):
    if not numbers:
        return '-'
    text = f'{statistics.mean(numbers):.{digits}f}'
    if len(numbers) > 1:
        text += f' ± {statistics.stdev(numbers):.{digits}f}'
    return text


def failures_text(folder, units):
    """Units without a result, and why."""
    lines = []
    for unit in units:
        row = folder.read(unit)
        if row is None or row['status'] != 'ok':
            why = 'not run' if row is None else row['error']
            lines.append(f'- {unit.title}: {why}')
    return '\n'.join(['Without a result:', '', *lines]) if lines else ''


def head_text(folder, units, title, command):
    """Title, command, commit, versions and CPU time of a report."""
    stored = [row for row in map(folder.read, units) if row]
    about = next((r for r in stored if 'versions' in r), environment())
    versions = ', '.join(f'{k} {v}' for k, v in about['versions'].items())
    minutes = sum(row['cpu_seconds'] for row in stored) / 60
    return (
        f'# {title}\n\n`{command}`, commit {about["git"]}, {versions}; '
        f'{minutes:.0f} CPU minutes on {about["threads"]} thread(s).'
    )


def finish(out, rows, blocks):
    """Writes the .csv and .md files."""
    write_atomic(Path(f'{out}.csv'), csv_text(rows))
    write_atomic(Path(f'{out}.md'), '\n\n'.join(filter(None, blocks)) + '\n')


def main_of(args, units, work, report, title):
    """Runs the units of a script and writes its files; an exit code."""
    folder = RunFolder(args.runs)
    torch.set_num_threads(1)
    try:
        whole = run_units(folder, units, work)
    except BlockingIOError:
        print(
            f"'{args.runs}' is in use by another runner; wait for it or give "
            'another folder with --runs',
            file=sys.stderr,
        )
        return 1
    rows = rows_of(folder, units)
    script = f'benchmarks/{Path(sys.argv[0]).name}'
    command = ' '.join(['python', script, *sys.argv[1:]])
    blocks = [
        head_text(folder, units, title, command),
        *report(rows),
        failures_text(folder, units),
    ]
    finish(args.out, rows, blocks)
    if not whole:
        return 130
    return int(any(not _finished(folder, unit) for unit in units))
