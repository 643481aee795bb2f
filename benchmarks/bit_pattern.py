"""Bags drawn from a seed: bit patterns, latch sequences, bags of digits.

Accuracy on test bags of networks that were trained on all training bags;
nothing is chosen, and the last epoch counts.

    python benchmarks/bit_pattern.py --out benchmarks/results/bit_pattern
"""

import argparse
import csv
import io
import statistics
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch.nn import Conv2d, Flatten, ReLU, Sequential

from torch_geometric.nn import AttentionalAggregation, MeanAggregation

from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.store import write_atomic
from torch_energy_graph.datasets.images import load_images
from torch_energy_graph.datasets.toy_bags import (
    bit_pattern_bags,
    image_bags,
    latch_bags,
)
from torch_energy_graph.nn.models.hopfield_classifier import HopfieldClassifier
from torch_energy_graph.train.bags import BagOptions, bag_logits, fit_bags

sys.path.insert(0, str(Path(__file__).parent))
from _mil import Pooled, gate

WIDTH = 64
COLUMNS = (
    'task',
    'method',
    'seed',
    'accuracy',
    'train_accuracy',
    'cpu_seconds',
)


def bit_patterns(small, root):
    """The split of the demo of hflayers: bags of class 1 come first."""
    size = 128 if small else 2048
    bags, numbers = bit_pattern_bags(size), torch.arange(size)
    train = (numbers >= size // 8) & (numbers < size - size // 8)
    return bags.select(numbers[train]), bags.select(numbers[~train])


def latch(small, root):
    size = 64 if small else 4096
    bags, numbers = latch_bags(size), torch.arange(size)
    return bags.select(numbers[: -size // 4]), bags.select(
        numbers[-size // 4 :]
    )


def mnist(small, root):
    """200 bags of training images, and 1,000 of test images."""
    images = load_images('mnist', root)
    counts = (20, 20) if small else (200, 1000)
    train = image_bags(images.train, images.train_y, num_bags=counts[0])
    test = image_bags(images.test, images.test_y, num_bags=counts[1], seed=1)
    return train, test


def convolution():
    """Images to 256 channels."""
    return Sequential(
        Conv2d(1, 8, 5, stride=2),
        ReLU(),
        Conv2d(8, 16, 5, stride=2),
        ReLU(),
        Flatten(),
    )


def peer(make_pool, in_channels, embedding=None):
    return Pooled(in_channels, make_pool(), WIDTH, embedding=embedding)


# how to draw, how to train, and what comes before the MLP
TASKS = {
    'bit patterns': (
        bit_patterns,
        BagOptions(epochs=30, batch_bags=128),
        lambda: None,
    ),
    'latch': (latch, BagOptions(epochs=2, batch_bags=128), lambda: None),
    'MNIST bags': (mnist, BagOptions(epochs=30, batch_bags=20), convolution),
}
CHANNELS = {'bit patterns': 8, 'latch': 20, 'MNIST bags': 256}
METHODS = {
    'Hopfield': HopfieldClassifier,
    'Hopfield, preset': partial(HopfieldClassifier.preset, 'bit_pattern'),
    'Hopfield, no dropout': partial(
        HopfieldClassifier, association_dropout=0.0
    ),
    'Hopfield, no MLP': partial(HopfieldClassifier, num_layers=0),
    'attention': partial(peer, lambda: AttentionalAggregation(gate(WIDTH))),
    'mean': partial(peer, MeanAggregation),
}


def accuracy(model, bags):
    """Share of bags in the right class."""
    right = bag_logits(model, bags, None, 128).argmax(1) == bags.y
    return float(right.double().mean())


def run(args):
    """Rows, one per task, method and seed."""
    for task in args.tasks:
        draw, options, embedding = TASKS[task]
        if args.small:
            options = replace(options, epochs=1)
        train, test = draw(args.small, args.root)
        for name in args.methods:
            for seed in range(args.seeds):
                start = time.process_time()
                torch.manual_seed(seed)
                model = METHODS[name](CHANNELS[task], embedding=embedding())
                options = replace(options, seed=seed)
                fit_bags(model, train, torch.arange(len(train)), None, options)
                yield {
                    'task': task,
                    'method': name,
                    'seed': seed,
                    'accuracy': accuracy(model, test),
                    'train_accuracy': accuracy(model, train),
                    'cpu_seconds': time.process_time() - start,
                }


def csv_text(rows):
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator='\n')
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                k: f'{v:.6g}' if isinstance(v, float) else v
                for k, v in row.items()
            }
        )
    return file.getvalue()


def report(rows, command):
    """One table of test accuracies, in Markdown."""
    about = environment()
    versions = ', '.join(f'{k} {v}' for k, v in about['versions'].items())
    tasks, methods = (
        list(dict.fromkeys(row[key] for row in rows))
        for key in ('task', 'method')
    )
    lines = [
        '# Bags drawn from a seed',
        '',
        f'`{command}`, commit {about["git"]}, {versions}.',
        '',
        'Test accuracy, mean over seeds of weights and order (lowest in '
        'brackets).',
        '',
        f'| method | {" | ".join(tasks)} |',
        f'|---|{"---:|" * len(tasks)}',
    ]
    for method in methods:
        cells = []
        for task in tasks:
            found = [
                row['accuracy']
                for row in rows
                if (row['task'], row['method']) == (task, method)
            ]
            cells.append(f'{statistics.fmean(found):.3f} ({min(found):.3f})')
        lines.append(f'| {method} | {" | ".join(cells)} |')
    return '\n'.join(lines) + '\n'


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--tasks', nargs='+', default=list(TASKS), choices=TASKS)
    add('--methods', nargs='+', default=list(METHODS), choices=METHODS)
    add('--seeds', type=int, default=3)
    add('--small', action='store_true', help='few bags, one seed')
    add('--root', help='folder of the images')
    add(
        '--out',
        default='runs/bit_pattern',
        help='path of the .csv and .md files, without ending',
    )
    args = parser.parse_args()
    if args.small:
        args.seeds = 1
    return args


def main():
    args, rows = parse(), []
    torch.set_num_threads(1)
    try:
        for row in run(args):
            rows.append(row)
            print(
                f'{row["task"]}, {row["method"]}, seed {row["seed"]}: '
                f'{row["accuracy"]:.3f}',
                flush=True,
            )
    except KeyboardInterrupt:
        return 130
    table = Path(args.out)
    write_atomic(table.with_suffix('.csv'), csv_text(rows))
    command = f'python benchmarks/bit_pattern.py --seeds {args.seeds}'
    write_atomic(table.with_suffix('.md'), report(rows, command))
    return 0


if __name__ == '__main__':
    sys.exit(main())
