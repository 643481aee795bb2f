"""Multiple-instance learning on Musk, Elephant and Tiger.

Networks differ only in how they pool a bag; every one, and a linear MI-SVM,
is tested by stratified 10-fold cross-validation, five times. Settings and the
number of epochs are chosen inside (`train/bag_folds.py`): two settings and
four numbers of epochs for each network, three settings for the SVM.

    python benchmarks/mil.py --out benchmarks/results/mil

A set, a method and a repeat is a unit, stored as one JSON file; units that
are there are skipped, whatever stopped the run before.
"""

import argparse
import csv
import hashlib
import io
import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch
from tqdm import tqdm

from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.store import write_atomic
from torch_energy_graph.datasets.bags import BAG_SETS, load_bags
from torch_energy_graph.train.bag_folds import bag_folds, cross_validate_bags

sys.path.insert(0, str(Path(__file__).parent))
from _mil import METHODS, NETWORKS, described, learners

OURS = next(iter(NETWORKS))
# padded to 102 bags of 1,044 instances
ONCE = ('musk2', 'set transformer')
COLUMNS = (
    'dataset',
    'method',
    'repeat',
    'fold',
    'auc',
    'accuracy',
    'setting',
    'epoch',
)


def plan(args):
    """Units in the order of the table."""
    for dataset in args.sets:
        for method in args.methods:
            repeats = 1 if (dataset, method) == ONCE else args.repeats
            for repeat in range(repeats):
                yield dataset, method, repeat


def unit_file(args, unit):
    """The file of a unit; its name changes with what decides the result."""
    dataset, method, repeat = unit
    about = [args.folds, args.epochs, described(method, dataset)]
    code = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:8]
    name = f'{dataset}--{method.replace(" ", "_")}--r{repeat}--{code}.json'
    return Path(args.units) / name


def run(args, unit):
    """Cross-validation of one unit."""
    dataset, method, repeat = unit
    bags = load_bags(dataset, args.root)
    folds = bag_folds(bags.y, args.folds, seed=repeat)
    settings = learners(method, dataset, args.epochs, seed=repeat)
    total, start = args.folds * (len(settings) + 1), time.process_time()
    title = f'{dataset} {method} {repeat}'
    with tqdm(total=total, desc=title, leave=False, disable=None) as bar:
        results = cross_validate_bags(settings, bags, folds, bar.update)
    return {
        'dataset': dataset,
        'method': method,
        'repeat': repeat,
        'cpu_seconds': round(time.process_time() - start, 2),
        'folds': [asdict(result) for result in results],
    }


def rows_of(units, epochs):
    """Lines of the CSV file, one per fold."""
    checkpoints = [*range(-(-epochs // 4), epochs, -(-epochs // 4)), epochs]
    for unit in units:
        for number, fold in enumerate(unit['folds']):
            network = unit['method'] in NETWORKS
            yield {
                **{key: unit[key] for key in COLUMNS[:3]},
                'fold': number,
                'auc': f'{fold["auc"]:.6g}',
                'accuracy': f'{fold["accuracy"]:.6g}',
                'setting': fold['setting'],
                'epoch': checkpoints[fold['checkpoint']] if network else '',
            }


def csv_text(units, epochs):
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows_of(units, epochs))
    return file.getvalue()


def by_fold(units):
    """AUC by dataset, method, and (repeat, fold)."""
    found = {}
    for unit in units:
        methods = found.setdefault(unit['dataset'], {})
        values = methods.setdefault(unit['method'], {})
        for number, fold in enumerate(unit['folds']):
            values[unit['repeat'], number] = fold['auc']
    return found


def spread(values, signed=False):
    """Mean and sample deviation in words."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    mean = statistics.fmean(values)
    return f'{mean:{"+" if signed else ""}.3f} ± {deviation:.3f}'


def report(units, command):
    """Tables of AUC and of paired differences, in Markdown."""
    about, found = environment(), by_fold(units)
    versions = ', '.join(f'{k} {v}' for k, v in about['versions'].items())
    seconds = sum(unit['cpu_seconds'] for unit in units)
    methods = [m for m in METHODS if any(m in row for row in found.values())]
    lines = [
        '# Multiple-instance learning',
        '',
        f'`{command}`, commit {about["git"]}, {versions}; '
        f'{seconds / 60:.0f} CPU minutes.',
        '',
        'Area under the ROC curve, mean ± sample deviation over all test '
        'folds. The last column is the mean over the sets. The set '
        'transformer has no encoder on Musk2, and ran once there.',
        '',
        f'| method | {" | ".join(found)} | mean |',
        f'|---|{"---:|" * len(found)}---:|',
    ]
    for method in methods:
        values = [row.get(method, {}).values() for row in found.values()]
        cells = [spread(list(v)) if v else '-' for v in values]
        mean = '-'
        if all(values):
            mean = f'{statistics.fmean(map(statistics.fmean, values)):.3f}'
        lines.append(f'| {method} | {" | ".join(cells)} | {mean} |')
    if OURS in methods:
        lines += ['', *differences(found, methods)]
    return '\n'.join(lines) + '\n'


def differences(found, methods):
    """Ours minus the others, on the folds that both have."""
    yield f'{OURS} minus the method of the row, paired by fold:'
    yield ''
    yield f'| method | {" | ".join(found)} |'
    yield f'|---|{"---:|" * len(found)}'
    for method in methods:
        if method == OURS:
            continue
        cells = []
        for row in found.values():
            ours, theirs = row.get(OURS, {}), row.get(method, {})
            deltas = [ours[k] - theirs[k] for k in ours if k in theirs]
            cells.append(spread(deltas, signed=True) if deltas else '-')
        yield f'| {method} | {" | ".join(cells)} |'


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--sets', nargs='+', default=list(BAG_SETS))
    add('--methods', nargs='+', default=list(METHODS), choices=METHODS)
    add('--repeats', type=int, default=5)
    add('--folds', type=int, default=10)
    add('--epochs', type=int, default=32)
    add('--small', action='store_true', help='3 folds, once, 4 epochs')
    add('--root', help='folder of the sets')
    add('--units', default='runs/mil', help='folder of the stored units')
    add(
        '--out',
        default='runs/mil/mil',
        help='path of the .csv and .md files, without ending',
    )
    args = parser.parse_args()
    if args.small:
        args.repeats, args.folds, args.epochs = 1, 3, 4
    return args


def main():
    args = parse()
    torch.set_num_threads(1)
    units = []
    try:
        for unit in tqdm(list(plan(args)), disable=None):
            file = unit_file(args, unit)
            if not file.exists():
                text = json.dumps(run(args, unit), indent=1)
                write_atomic(file, text + '\n')
            units.append(json.loads(file.read_text('utf-8')))
    except KeyboardInterrupt:
        print(f'stopped; {args.units} keeps what is done', file=sys.stderr)
        return 130
    table = Path(args.out)
    write_atomic(table.with_suffix('.csv'), csv_text(units, args.epochs))
    command = 'python benchmarks/mil.py'
    command += f' --repeats {args.repeats} --epochs {args.epochs}'
    text = report(units, command)
    write_atomic(table.with_suffix('.md'), text)
    print(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
