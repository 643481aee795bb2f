"""``teg evaluate``: what the scores of a training tell."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from torch_energy_graph.cli.fraud.evaluate import evaluate_tables
from torch_energy_graph.cli.output import Json, print_json

__all__ = ['evaluate']


class Shift(str, Enum):
    """What changes between known nodes and others."""

    STRUCTURE = 'structure'
    FEATURE = 'feature'
    LABEL = 'label'


def evaluate(
    folder: Annotated[Path, typer.Argument(help='Folder of a training.')],
    ood: Annotated[
        list[Shift] | None,
        typer.Option(
            help='Also rank test nodes against nodes of a shifted graph '
            '(structure, feature) or of classes left out (label).'
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help='Seed of the shifted graphs.')] = 0,
    tables: Annotated[
        Path | None,
        typer.Option(help='Where the tables of a training on tables are now.'),
    ] = None,
    json: Json = False,
) -> None:
    """Measure a finished training on its test nodes.

    Of a classifier: calibration and energy scores. Of a detector on tables:
    scores beside trees, thresholds, calibration, and report.html.
    """
    from torch_energy_graph.bench.fraud.run import is_fraud_run

    if is_fraud_run(folder):
        if ood:
            raise typer.BadParameter("'--ood' is for trained classifiers")
        evaluate_tables(folder, tables, json)
        return
    if tables is not None:
        raise typer.BadParameter("'--tables' is for trainings on tables")
    from torch_energy_graph.bench.ood import evaluate_training

    shifts = [shift.value for shift in ood or ()]
    result = evaluate_training(folder, shifts, seed)  # type: ignore[arg-type]
    if json:
        print_json(result)
        return
    typer.echo(f'{result["model"]} on {result["dataset"]}, test nodes:')
    names = list(result['test'])
    typer.echo(_line('', names))
    for title, key in (('as trained', 'test'), ('temperature', 'scaled')):
        typer.echo(_line(title, [f'{result[key][n]:.4f}' for n in names]))
    typer.echo(
        f'Temperature {result["temperature"]:.3f}, fitted on validation '
        f'nodes. {_advice(result["test"]["confidence_gap"])}'
    )
    for shift, scores in result['ood'].items():
        typer.echo(f'\nTest nodes against the shift of {shift}:')
        typer.echo(_line('', ['auroc', 'aupr', 'fpr95']))
        for score, found in scores.items():
            typer.echo(_line(score, [f'{v:.4f}' for v in found.values()]))
    for note in result['notes']:
        typer.echo(f'Note: {note}.')


def _advice(gap: float) -> str:
    """Say what the mean confidence means for NG-EBM."""
    if gap > 0:
        return 'Over-confident: NG-EBM may help; compare with temperature.'
    return "Under-confident: NG-EBM's gradient term would make it worse."


def _line(title: str, cells: list[str]) -> str:
    return f'{title:12}' + ''.join(f'{cell:>16}' for cell in cells)
