"""``teg evaluate RUN``: a detector on the nodes that were held out."""

import shlex
from pathlib import Path
from typing import Any

import typer

from torch_energy_graph.cli.output import print_json

__all__ = ['evaluate_tables']


def evaluate_tables(
    folder: Path, tables: Path | None = None, json: bool = False
) -> None:
    """Measure a detector, and write ``evaluation.json`` and ``report.html``.

    Args:
        folder (Path): Folder of a training on tables.
        tables (Path, optional): Where the tables are now.
            (default: :obj:`None`)
        json (bool, optional): Whether to print JSON.
            (default: :obj:`False`)
    """
    from torch_energy_graph.bench.fraud import (
        evaluate_run,
        html_report,
        load_run,
    )
    from torch_energy_graph.bench.settings import dump
    from torch_energy_graph.train import write_atomic

    run = load_run(folder, tables)
    found = evaluate_run(run)
    write_atomic(folder / 'evaluation.json', dump(found.record))
    commands = [run.command, shlex.join(['teg', 'evaluate', str(folder)])]
    report = None
    try:
        page = html_report(run, found, commands)
    except ImportError as error:
        typer.echo(f'No report: {error}', err=True)
    else:
        report = folder / 'report.html'
        write_atomic(report, page)
    if json:
        print_json(found.record)
        return
    for line in _lines(found.record, run.detector.calibration):
        typer.echo(line)
    if report is not None:
        typer.echo(f'\nReport: {report}')


def _lines(record: dict[str, Any], calibration: str | None) -> list[str]:
    test, tested = record['test'], record['decisions']
    held = record['parts']['test']
    lines = [
        f'{held["nodes"]} nodes were held out, {held["anomalies"]} of them '
        f'anomalous.',
        '',
        _row('', ('AUPRC', 'AUROC', 'Rec@K')),
    ]
    names = ('auprc', 'auroc', 'rec_at_k')
    for name, found in {
        'this detector': test,
        **record['baselines'],
    }.items():
        lines.append(_row(name, [f'{found[key]:.4f}' for key in names]))
    lines += ['', _row('', ('ECE', 'Brier', 'NLL'))]
    names = ('ece', 'brier', 'nll')
    for name, found in {
        'as trained': record['uncalibrated'],
        f'calibrated ({calibration})': test,
    }.items():
        lines.append(_row(name, [f'{found[key]:.4f}' for key in names]))
    lines += [
        f'ECE by chance, were every probability right: '
        f'{record["ece_by_chance"]:.4f}',
        '',
        f'At the threshold {tested["threshold"]:.4f}: {tested["alarms"]} '
        f'alarms, {tested["caught"]} of them right; {tested["missed"]} '
        f'anomalies missed.',
    ]
    return lines


def _row(title: str, cells: Any) -> str:
    return f'{title:32}' + ''.join(f'{cell:>10}' for cell in cells)
