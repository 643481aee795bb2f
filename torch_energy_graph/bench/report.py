"""Results as a long CSV, as Markdown tables and as a picture."""

import csv
import io
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from torch_energy_graph.bench.compare import differences_text
from torch_energy_graph.bench.goal import ANOMALIES, Goal
from torch_energy_graph.bench.picture import draw
from torch_energy_graph.bench.protocol import goal_of
from torch_energy_graph.bench.ranking import rank
from torch_energy_graph.bench.store import (
    Pair,
    Row,
    RunFolder,
    write_atomic,
)

__all__ = ['csv_text', 'markdown', 'write_report']

METRICS = tuple(ANOMALIES.titles)
LOWER_IS_BETTER = ('ece',)
KEYS = ('dataset', 'model', 'protocol', 'split', 'seed', 'config')
EXTRAS = (
    'threshold',
    'best_epoch',
    'seconds',
    'memory_start_mib',
    'memory_peak_mib',
    'num_parameters',
    'energy_start',
    'energy_end',
    'device',
    'git',
    'error',
)
PICTURE = 'ranking.svg'


def write_report(folder: RunFolder) -> str:
    """Write ``results.csv`` and ``report.md``; return the Markdown.

    Models that share two tables or more are ranked, and with matplotlib there
    is a picture of it, ``ranking.svg``.
    """
    units, about = folder.read_plan()
    pairs = [(unit, folder.read(unit)) for unit in units]
    text = markdown(pairs, about, folder.count_others(units))
    write_atomic(folder.path / 'results.csv', csv_text(pairs))
    write_atomic(folder.path / 'report.md', text)
    ranking = rank(list(_tables(pairs).values()))
    if ranking is not None and find_spec('matplotlib') is not None:
        draw(ranking, folder.path / PICTURE)
    return text


def csv_text(pairs: Sequence[Pair]) -> str:
    """Return one line per unit, in the order of the plan."""
    goals = _goals(pairs)
    metrics = tuple(dict.fromkeys(m for g in goals for m in g.titles))
    metrics = metrics or METRICS
    parts = [f'{part}_{name}' for part in ('val', 'test') for name in metrics]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow([*KEYS, 'status', *parts, *EXTRAS, 'tries', 'params'])
    for unit, row in pairs:
        row = row or {'status': 'not run'}
        values = [
            row.get(part, {}).get(name)
            for part in ('val', 'test')
            for name in metrics
        ]
        extras = [row.get(key) for key in EXTRAS]
        keys = [getattr(unit, key) for key in KEYS]
        chosen = json.dumps(row.get('params', unit.params), sort_keys=True)
        tries = row.get('tuning', {}).get('tries')
        writer.writerow(
            [*keys, row['status'], *values, *extras, tries, chosen]
        )
    return file.getvalue()


def markdown(pairs: Sequence[Pair], about: Row, others: int = 0) -> str:
    """Return one table per dataset and protocol.

    Args:
        pairs (sequence): Units in the order of the plan, with their rows.
        about (dict): ``name`` and ``command`` of the run.
        others (int, optional): Number of rows of other settings in the
            folder. (default: :obj:`0`)
    """
    tables = _tables(pairs)
    ranking = rank(list(tables.values()))
    chosen = ' or '.join(dict.fromkeys(g.chosen for g in _goals(pairs)))
    blocks = [
        f'# {about["name"]}',
        'Test nodes, mean ± standard deviation (n runs), best in bold; '
        f'{chosen} chosen on validation nodes. MiB is the peak of '
        'resident memory above the start of the unit; memory that the process '
        'kept from earlier units is not in it. Intervals are of the mean over '
        'splits of these graphs; splits share nodes, so they are not '
        'independent and the intervals are rather short.',
        f'Made by `{about["command"]}`.',
        *(
            _table(key, group, about['command'])
            for key, group in tables.items()
        ),
        ranking.text() if ranking is not None else '',
        _versions(row for _, row in pairs if row),
    ]
    if others:
        blocks.append(
            f'{others} results of other settings in this folder are not shown.'
        )
    return '\n\n'.join(block for block in blocks if block) + '\n'


def _goals(pairs: Sequence[Pair]) -> list[Goal]:
    """Return the goals of the units, each once."""
    protocols = dict.fromkeys(unit.protocol for unit, _ in pairs)
    goals = {goal.name: goal for goal in map(goal_of, protocols)}
    return list(goals.values())


def _tables(pairs: Sequence[Pair]) -> dict[tuple[str, str], list[Pair]]:
    tables: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        key = (pair[0].dataset, pair[0].protocol)
        tables.setdefault(key, []).append(pair)
    return tables


@dataclass(frozen=True)
class _Line:
    """The runs of one model on one dataset and protocol."""

    model: str
    planned: int
    rows: list[Row]

    def values(self, *path: str) -> list[float]:
        found: list[Any] = list(self.rows)
        for key in path:
            found = [value.get(key) for value in found]
        return [value for value in found if value is not None]

    def mean(self, *path: str) -> float | None:
        values = self.values(*path)
        return statistics.fmean(values) if values else None

    def cell(self, metric: str, best: float | None) -> str:
        values = self.values('test', metric)
        if not values:
            return '-'
        mean = f'{statistics.fmean(values):.3f}'
        if best is not None and mean == f'{best:.3f}':
            mean = f'**{mean}**'
        if len(values) == 1:
            return f'{mean} (1)'
        return f'{mean} ± {statistics.stdev(values):.3f} ({len(values)})'


def _table(key: tuple[str, str], pairs: list[Pair], command: str) -> str:
    models = dict.fromkeys(unit.model for unit, _ in pairs)
    lines = []
    for model in models:
        rows = [row for unit, row in pairs if unit.model == model]
        ok = [row for row in rows if row and row['status'] == 'ok']
        lines.append(_Line(model, len(rows), ok))
    titles = goal_of(key[1]).titles
    best = {metric: _best(lines, metric) for metric in titles}
    head = ['model', *titles.values(), 'seconds', 'MiB', 'parameters', 'runs']
    text = [_join(head), _join(['---'] + ['---:'] * (len(head) - 1))]
    for line in lines:
        memory = [
            row['memory_peak_mib'] - row['memory_start_mib']
            for row in line.rows
            if row['memory_peak_mib'] is not None
        ]
        text.append(
            _join(
                [
                    line.model,
                    *(line.cell(metric, best[metric]) for metric in titles),
                    _number(line.mean('seconds'), '.1f'),
                    _number(max(memory, default=None), '.0f'),
                    _number(line.mean('num_parameters'), ',.0f'),
                    f'{len(line.rows)} of {line.planned}',
                ]
            )
        )
    title = f'## {key[0]}, {key[1]}'
    only = f'dataset={key[0]},protocol={key[1]},model=MODEL'
    blocks = [
        title,
        _counts(pairs),
        '\n'.join(text),
        f'One row: `{command} --only {only}`.',
        differences_text(pairs),
        _chosen(pairs),
        _failures(pairs),
    ]
    return '\n\n'.join(block for block in blocks if block)


def _best(lines: list[_Line], metric: str) -> float | None:
    means = [line.mean('test', metric) for line in lines]
    found = [mean for mean in means if mean is not None]
    if len(found) < 2:
        return None
    return min(found) if metric in LOWER_IS_BETTER else max(found)


def _counts(pairs: list[Pair]) -> str:
    for unit, row in pairs:
        if row and row['status'] == 'ok':
            parts = ', '.join(
                _count(row['split'][part], name)
                for part, name in (
                    ('train', 'training'),
                    ('val', 'validation'),
                    ('test', 'test'),
                )
            )
            return f'Split {unit.split}: {parts}.'
    return ''


def _count(part: Row, name: str) -> str:
    text = f'{part["nodes"]:,} {name} nodes'
    if 'anomalies' in part:
        text += f' ({part["anomalies"]:,} anomalous)'
    return text


def _chosen(pairs: list[Pair]) -> str:
    """Say which settings tuning has chosen, and among how many."""
    items: dict[str, str] = {}
    for unit, row in pairs:
        if unit.search is not None and row and 'tuning' in row:
            values = ', '.join(
                f'{key} {row["params"][key]}' for key in unit.search.grid
            )
            tries = row['tuning']['tries']
            items[unit.model] = f'- {unit.model}: {values} ({tries} tried)'
    if not items:
        return ''
    goal = goal_of(pairs[0][0].protocol)
    title = goal.titles[goal.metric]
    head = f'Chosen by {title} on the validation nodes of split 0:'
    return '\n'.join([head, '', *items.values()])


def _failures(pairs: list[Pair]) -> str:
    """List what has no result, one line for units with the same reason."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for unit, row in pairs:
        where = f'split {unit.split}, seed {unit.seed}'
        if row is None:
            key = ('not run', unit.model, '')
        elif row['status'] != 'ok':
            key = (row['status'], unit.model, f': {row["error"]}')
        else:
            continue
        reasons.setdefault(key, []).append(where)
    if not reasons:
        return ''
    items = [
        f'- {status}: {model}, '
        f'{where[0] if len(where) == 1 else f"{len(where)} units"}{reason}'
        for (status, model, reason), where in reasons.items()
    ]
    return 'Means above leave these out:\n\n' + '\n'.join(items)


def _versions(rows: Iterable[Row]) -> str:
    seen: dict[str, set[str]] = {}
    for row in rows:
        for name, version in row['versions'].items():
            seen.setdefault(name, set()).add(version)
        seen.setdefault('commit', set()).add(row['git'] or 'unknown')
        seen.setdefault('threads', set()).add(str(row['threads']))
    parts = [f'{k} {" / ".join(sorted(v))}' for k, v in seen.items()]
    return f'Versions: {", ".join(parts)}.' if parts else ''


def _number(value: float | None, spec: str) -> str:
    return '-' if value is None else format(value, spec)


def _join(cells: Iterable[str]) -> str:
    return f'| {" | ".join(cells)} |'
