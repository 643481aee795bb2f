"""Table and report of the image benchmark."""

import csv
import io

from torch_energy_graph.bench.measure import environment

ET, VIT = 'ImageEnergyTransformer', 'ViT, one block'
COLUMNS = (
    'method',
    'test_mse',
    'first_mse',
    'parameters',
    'multiply_adds',
    'minutes',
    'epochs',
    'test_seconds',
)


def read_rows(path):
    """Rows by method of a CSV file, none if there is no file."""
    try:
        with open(path, newline='', encoding='utf-8') as file:
            return {row['method']: row for row in csv.DictReader(file)}
    except FileNotFoundError:
        return {}


def csv_text(rows, methods):
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator='\n')
    writer.writeheader()
    for method in methods:
        if method in rows:
            values = rows[method].items()
            writer.writerow({key: _digits(value) for key, value in values})
    return file.getvalue()


def _digits(value):
    return f'{value:.6g}' if isinstance(value, float) else value


def report(rows, task, methods, command):
    """The table in Markdown, with the two goals of the networks."""
    about = environment()
    versions = ', '.join(f'{k} {v}' for k, v in about['versions'].items())
    height, width = task.grid
    lines = [
        '# Completion of images with half of the patches hidden',
        '',
        f'`{command}`, commit {about["git"]}, {versions}, '
        f'{about["threads"]} threads of {about["machine"]}.',
        '',
        f'{len(task.train):,} training and {len(task.test):,} test images, '
        f'{height} x {width} patches, {int(task.mask[0].sum())} of them '
        f'hidden; mean squared error on hidden patches, pixels in [0, 1].',
        '',
        f'| method | all test images | first {task.first:,} | parameters |'
        ' multiply-adds per image | minutes | epochs | seconds for the test |',
        '|---|---:|---:|---:|---:|---:|---:|---:|',
    ]
    for method in (m for m in methods if m in rows):
        row = rows[method]
        cells = [
            method,
            _cell(row['test_mse'], '.5f'),
            _cell(row['first_mse'], '.5f'),
            _cell(row['parameters'], ',.0f'),
            _cell(row['multiply_adds'], ',.0f'),
            _cell(row['minutes'], '.1f'),
            _cell(row['epochs'], '.1f'),
            _cell(row['test_seconds'], '.1f'),
        ]
        lines.append(f'| {" | ".join(cells)} |')
    lines += ['', *comparison(rows)]
    return '\n'.join(lines) + '\n'


def comparison(rows):
    """Sentences about the energy transformer, as far as rows are there."""
    if ET not in rows:
        return
    own = float(rows[ET]['first_mse'])
    others = {
        method: float(row['first_mse'])
        for method, row in rows.items()
        if method not in (ET, VIT)
    }
    if others:
        best = min(others, key=others.get)
        less = 1 - own / others[best]
        yield (
            f'Against the best completion without a network ({best}), the '
            f'error of the energy transformer on the first images is '
            f'{abs(less):.1%} {"lower" if less >= 0 else "higher"}.'
        )
    if VIT in rows:
        more = float(rows[ET]['test_mse']) / float(rows[VIT]['test_mse']) - 1
        yield (
            f'Against the block of a vision transformer, its error on all '
            f'test images is {abs(more):.1%} '
            f'{"higher" if more >= 0 else "lower"}.'
        )


def _cell(value, form):
    return '' if value in (None, '') else format(float(value), form)
