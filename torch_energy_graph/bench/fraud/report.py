"""A run as one HTML file that opens anywhere.

Whatever comes from the tables is text to the page: names of columns, types
and files cannot become markup.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from torch_energy_graph.bench.fraud.evaluation import Evaluation
from torch_energy_graph.bench.fraud.page import PAGE
from torch_energy_graph.bench.fraud.run import FraudRun
from torch_energy_graph.plot import new_figure, png_bytes
from torch_energy_graph.plot.fraud import (
    plot_class_descent,
    plot_precision_recall,
    plot_reliability,
    plot_roc,
)

__all__ = ['html_report']

Row = Mapping[str, Any]
_ENERGY = 'energy transformer'


class Grid(NamedTuple):
    """A table of the page."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]


def html_report(
    run: FraudRun, evaluation: Evaluation, commands: Sequence[str]
) -> str:
    """The page.

    Args:
        run (FraudRun): A finished training.
        evaluation (Evaluation): What was measured.
        commands (sequence of str): That made it.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    # everything is escaped, and an absent value is an error
    engine = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return engine.from_string(PAGE).render(
        title=f"Anomalies in '{Path(run.config.tables).name}'",
        commands='\n'.join(commands),
        pictures=_pictures(evaluation, run.detector.num_steps),
        **_measured(run, evaluation.record),
        **_data(run.card),
        **_making(run, evaluation.record),
    )


def _measured(run: FraudRun, record: Row) -> dict[str, Any]:
    models = {_ENERGY: record['test'], **record['baselines']}
    quality = {
        'as trained': record['uncalibrated'],
        f'calibrated ({run.detector.calibration})': record['test'],
    }
    tested = record['decisions']
    parts = record['parts']
    told = [
        f'{parts[part]["nodes"]:,} nodes {verb} ({parts[part]["anomalies"]:,} '
        f'anomalous)'
        for part, verb in (
            ('train', 'trained'),
            ('val', 'validated'),
            ('test', 'were held out'),
        )
    ]
    return {
        'summary': f'{"; ".join(told)}.',
        'ranking': _grid(models, ['model', 'auprc', 'auroc', 'rec_at_k']),
        'calibration': _grid(
            quality, ['probabilities', 'ece', 'brier', 'nll']
        ),
        'by_chance': _text(record['ece_by_chance']),
        'decision': (
            f'A node is flagged if its probability is at least '
            f'{_text(tested["threshold"])}.'
        ),
        'confusion': Grid(
            ['', 'flagged', 'passed'],
            [
                _cells('anomalous', tested['caught'], tested['missed']),
                _cells('normal', tested['false_alarms'], tested['passed']),
            ],
        ),
        'thresholds': _rows(
            record['thresholds'],
            [
                'target',
                'threshold',
                'alarms',
                'precision',
                'recall',
                'macro_f1',
            ],
        ),
    }


def _data(card: Row) -> dict[str, Any]:
    counts = {
        name: value
        for name, value in card.items()
        if isinstance(value, int | float) or value is None
    }
    kinds = ['name', 'kind', 'missing', 'distinct', 'auroc']
    edges = [{**column, 'auroc': None} for column in card['edge_columns']]
    return {
        'warnings': card['warnings'],
        'notes': card['notes'],
        'counts': Grid(
            ['fact', ''],
            [
                _cells(name.replace('_', ' '), value)
                for name, value in counts.items()
            ],
        ),
        'relations': _rows(
            card['relations'],
            ['name', 'num_edges', 'homophily', 'anomaly_homophily'],
        ),
        'columns': _rows([*card['columns'], *edges], kinds),
    }


def _making(run: FraudRun, record: Row) -> dict[str, Any]:
    versions = [f'{name} {v}' for name, v in record['versions'].items()]
    params = run.detector.get_params()
    return {
        'settings': Grid(
            ['setting', ''],
            [_cells(name, value) for name, value in params.items()],
        ),
        'versions': ', '.join(versions),
    }


def _pictures(evaluation: Evaluation, num_steps: int) -> dict[str, str]:
    y, tested = evaluation.y, evaluation.record['decisions']
    scores = {_ENERGY: evaluation.prob, **evaluation.baselines}
    point = (tested['recall'], tested['precision'])
    quality = {'as trained': evaluation.raw, 'calibrated': evaluation.prob}
    names = ('roc', 'precision and recall', 'calibration', 'energy')
    figures = {name: new_figure(5.2, 3.9) for name in names}
    axes = {name: figure.subplots() for name, figure in figures.items()}
    plot_roc(y, scores, axes['roc'])
    plot_precision_recall(y, scores, axes['precision and recall'], point)
    plot_reliability(y, quality, axes['calibration'])
    plot_class_descent(evaluation.descent, num_steps, axes['energy'])
    return {
        name: base64.b64encode(png_bytes(figure, dpi=140)).decode()
        for name, figure in figures.items()
    }


def _grid(models: Mapping[str, Row], names: Sequence[str]) -> Grid:
    rows = [{names[0]: name, **row} for name, row in models.items()]
    return _rows(rows, names)


def _rows(rows: Iterable[Row], names: Sequence[str]) -> Grid:
    cells = [_cells(*(row[name] for name in names)) for row in rows]
    return Grid([_title(name) for name in names], cells)


def _title(name: str) -> str:
    known = {'rec_at_k': 'Rec@K', 'macro_f1': 'macro-F1', 'brier': 'Brier'}
    if name in ('auprc', 'auroc', 'ece', 'nll'):
        return name.upper()
    return known.get(name, name.replace('_', ' '))


def _cells(*values: Any) -> list[str]:
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    if value is None:
        return '-'
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f'{value:,}' if isinstance(value, int) else f'{value:.4g}'
