"""Aligned tables of a comparison, and the columns of its CSV."""

from _jobs import append_rows

DISAGREE = 1e-4  # far above the rounding of hubs
HEADER = (
    'backend                 forward      wall    ratio    fwd+bwd      wall'
    '    ratio  peak fwd  peak all  difference'
)


def add_ratios(rows):
    """Times of the first row over those of each: CPU, or wall if threaded."""
    kind = 'cpu' if rows[0]['threads'] == 1 else 'wall'
    for part in ('forward', 'train'):
        column = f'{part}_{kind}_s'
        for row in rows:
            time = row[column]
            row[f'{part}_ratio'] = rows[0][column] / time if time else None
    return rows


def report(results, show, out):
    """Shows and stores lists of rows as they come; status 1 if sides differ.

    Args:
        results (iterable): Lists of rows.
        show (callable): Prints one list.
        out (str, optional): CSV file to append to.
    """
    worst = 0.0
    for rows in results:
        show(rows)
        if out:
            append_rows(out, rows)
        worst = max(worst, *(row['difference'] or 0.0 for row in rows))
    if worst > DISAGREE:
        print(f'the sides disagree by {worst:.0e}')
        return 1
    return 0


def print_rows(title, rows):
    print(f'\n{title}\n{HEADER}')
    for row in rows:
        if row['note']:
            print(f'{row["method"]:20} not run: {row["note"]}')
            continue
        cells = [f'{row["method"]:20}']
        for part in ('forward', 'train'):
            cells += [
                f'{_seconds(row[f"{part}_cpu_s"]):>10}',
                f'{_seconds(row[f"{part}_wall_s"]):>9}',
                f'{row[f"{part}_ratio"]:7.1f}x',
            ]
        cells += [
            f'{_size(row["peak_forward_mib"]):>9}',
            f'{_size(row["peak_train_mib"]):>9}',
            f'{_small(row["difference"]):>11}',
        ]
        print(' '.join(cells), flush=True)


def _seconds(value):
    return f'{value:.3g} s' if value >= 1 else f'{1e3 * value:.3g} ms'


def _size(value):
    if value is None:
        return '-'
    return f'{value / 1024:.2f} GiB' if value >= 1024 else f'{value:.0f} MiB'


def _small(value):
    return 'other' if value is None else f'{value:.0e}'
