"""Classes of graphs on the TU sets: the table of docs/graph_classification.md.

Ten folds: one is measured once, the next one is for validation, eight train.
The learning rate and the epoch are those of the least validation loss.
"""

import argparse
import csv
import io
import statistics
import sys
from pathlib import Path

from torch_energy_graph.bench.compare import by_split, difference
from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.store import RunFolder, Unit, write_atomic

sys.path.insert(0, str(Path(__file__).parent))
from _graph_classification import (
    FOLDS,
    MODELS,
    TRAINING,
    load,
    name_of,
    run_fold,
    split,
)

# as many for all models of a set; fewer on large sets, to keep the table cheap
EPOCHS = {
    'MUTAG': 60,
    'PTC_MR': 40,
    'ENZYMES': 40,
    'DHFR': 20,
    'PROTEINS': 15,
    'NCI1': 10,
}
SETS = ('MUTAG', 'PTC_MR', 'ENZYMES', 'DHFR', 'PROTEINS')
OURS = MODELS[0]
PROTOCOL = f'{FOLDS}-folds'
COLUMNS = (
    *('dataset', 'model', 'fold', 'accuracy', 'val_accuracy', 'val_loss'),
    *('lr', 'best_epoch', 'epochs', 'num_parameters', 'seconds'),
)


def plan(args):
    """Units in the order in which they run: whole folds of a set."""
    for dataset in args.datasets:
        epochs = args.epochs or EPOCHS.get(dataset, 20)
        params = {**TRAINING, 'epochs': epochs}
        for fold in range(args.folds):
            for model in args.models:
                yield Unit(dataset, model, PROTOCOL, fold, fold, params)


def run(units, folder, root):
    """Fills the folder with the rows that are absent."""
    graphs, parts = {}, {}
    for number, unit in enumerate(units, 1):
        if folder.read(unit) is not None:
            continue
        if unit.dataset not in graphs:
            graphs = {unit.dataset: load(unit.dataset, root)}  # one at a time
        data, num_attributes, num_classes = graphs[unit.dataset]
        key = unit.dataset, unit.split
        if key not in parts:
            parts = {key: split(data, unit.split, num_attributes)}
        row = run_fold(
            name_of(unit.model, data),
            parts[key],
            num_classes,
            unit.params['epochs'],
            unit.seed,
            unit.params,
        )
        folder.write(unit, {**row, **environment()})
        print(
            f'{number}/{len(units)} {unit.title}: accuracy '
            f'{row["test"]["accuracy"]:.3f}, {row["seconds"]:.0f} s',
            flush=True,
        )


def csv_text(pairs):
    file = io.StringIO()
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(COLUMNS)
    for unit, row in pairs:
        writer.writerow(
            [
                *(unit.dataset, unit.model, unit.split),
                *(f'{row["test"]["accuracy"]:.4f}',),
                *(f'{row["val"][key]:.4f}' for key in ('accuracy', 'loss')),
                *(row['lr'], row['best_epoch'], unit.params['epochs']),
                *(row['num_parameters'], row['seconds']),
            ]
        )
    return file.getvalue()


def report(pairs, command):
    """Accuracies, and differences of ours to the others fold by fold."""
    about = environment()
    versions = ', '.join(f'{k} {v}' for k, v in about['versions'].items())
    blocks = [
        '# Classes of graphs',
        f'`{command}`, commit {about["git"]}, {versions}.',
        f'Test accuracy in %, mean ± standard deviation over folds. Of {FOLDS}'
        ' folds one is the test part, the next one the validation part. The '
        'learning rate (of '
        f'{", ".join(map(str, TRAINING["lr"]))}, each tried for '
        f'{TRAINING["tuning_share"]:.0%} of the epochs) and the epoch are '
        'those of the least validation loss; test graphs are seen once. All '
        'models get the same features, epochs and batches, and as many '
        'parameters. Seconds are CPU seconds per fold, choice of the learning '
        'rate included.',
    ]
    for dataset in dict.fromkeys(unit.dataset for unit, _ in pairs):
        group = [pair for pair in pairs if pair[0].dataset == dataset]
        blocks += [_table(dataset, group), _differences(group)]
    return '\n\n'.join(filter(None, blocks)) + '\n'


def _table(dataset, pairs):
    unit, row = pairs[0]
    sizes = ', '.join(f'{v:,} {k}' for k, v in row['graphs'].items())
    lines = [
        f'## {dataset}',
        '',
        f'{unit.params["epochs"]} epochs; graphs: {sizes} (fold 0).',
        '',
        '| model | accuracy | folds | parameters | seconds |',
        '|---|---:|---:|---:|---:|',
    ]
    for model in dict.fromkeys(unit.model for unit, _ in pairs):
        rows = [row for unit, row in pairs if unit.model == model]
        values = [100 * row['test']['accuracy'] for row in rows]
        mean = f'{statistics.mean(values):.1f}'
        if rows[1:]:
            mean += f' ± {statistics.stdev(values):.1f}'
        seconds = statistics.mean(row['seconds'] for row in rows)
        lines.append(
            f'| {rows[0]["network"]} | {mean} | {len(rows)} | '
            f'{rows[0]["num_parameters"]:,} | {seconds:.1f} |'
        )
    return '\n'.join(lines)


def _differences(pairs):
    scores = by_split(pairs, 'accuracy')
    lines = [
        f'Accuracy of {OURS} minus that of another model, in points, paired '
        'by fold. Training parts of folds share graphs, so the intervals are '
        'rather short.',
        '',
        '| other model | difference | 95 % interval | folds |',
        '|---|---:|---:|---:|',
    ]
    for model in (name for name in scores if name != OURS):
        found = difference(scores.get(OURS, {}), scores[model])
        if found is not None:
            interval = '-'
            if found.interval is not None:
                low, high = (100 * end for end in found.interval)
                interval = f'{low:+.1f} to {high:+.1f}'
            lines.append(
                f'| {model} | {100 * found.mean:+.1f} | {interval} | '
                f'{found.n} |'
            )
    return '\n'.join(lines) if lines[4:] else ''


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--datasets', nargs='+', default=list(SETS), metavar='NAME')
    add('--models', nargs='+', default=list(MODELS), choices=MODELS)
    add('--folds', type=int, default=FOLDS, help='run only the first ones')
    add('--epochs', type=int, help='for all sets (default: per set)')
    add('--small', action='store_true', help='two folds, 3 epochs')
    add('--root', help='folder of the npz files, or of tu/ with them')
    add(
        '--runs',
        default='runs/graph_classification',
        help='folder of the finished folds; a new run goes on from there',
    )
    add(
        '--out',
        default='benchmarks/results/graph_classification',
        help='path of the .csv and .md files, without ending',
    )
    args = parser.parse_args()
    if not 1 <= args.folds <= FOLDS:
        parser.error(f'--folds must be in 1 to {FOLDS} (got {args.folds})')
    if args.small:
        args.folds, args.epochs = min(args.folds, 2), 3
    return args


def main():
    args = parse()
    folder, units = RunFolder(args.runs), list(plan(args))
    try:
        with folder.lock():
            run(units, folder, args.root)
    except KeyboardInterrupt:
        print(f'stopped; go on with --runs {args.runs}', file=sys.stderr)
        return 130
    except BlockingIOError:
        print(
            f"'{args.runs}' is in use by another runner; wait for it or give "
            'another folder with --runs',
            file=sys.stderr,
        )
        return 1
    pairs = [(unit, folder.read(unit)) for unit in units]
    command = 'python benchmarks/graph_classification.py'
    write_atomic(Path(f'{args.out}.csv'), csv_text(pairs))
    write_atomic(Path(f'{args.out}.md'), report(pairs, command))
    return 0


if __name__ == '__main__':
    sys.exit(main())
