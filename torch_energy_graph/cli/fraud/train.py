"""``teg train FOLDER``: a detector on the tables of a folder."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torch_energy_graph.cli.fraud.settings import (
    Calibration,
    Method,
    Settings,
    Threshold,
    detector_of,
    layout_fields,
)
from torch_energy_graph.cli.fraud.tables import short_warnings
from torch_energy_graph.cli.interrupt import interruptible
from torch_energy_graph.cli.output import Json, print_json
from torch_energy_graph.cli.tables import Separator, holds_tables, layout_of

if TYPE_CHECKING:
    from torch_energy_graph.bench.fraud import FraudTraining

__all__ = ['train_tables']


def train_tables(
    tables: Annotated[
        Path,
        typer.Argument(
            metavar='FOLDER', help='Folder with nodes.csv and edges.csv.'
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help='Folder of the files. [default: runs/NAME]'),
    ] = None,
    test: Annotated[
        float,
        typer.Option(help='Share of labelled nodes to hold out, or 0.'),
    ] = 0.2,
    settings: Settings = None,
    threshold: Threshold = 'macro_f1',
    calibration: Calibration = Method.SIGMOID,
    seed: Annotated[int, typer.Option(help='Seed of all that is random.')] = 0,
    sep: Separator = ',',
    json: Json = False,
) -> None:
    """Train a fraud detector on tables; a stopped training goes on."""
    from torch_energy_graph.bench.fraud import FraudTraining, fraud_config
    from torch_energy_graph.bench.store import RunFolder

    detector = detector_of(settings or (), threshold, calibration, seed)
    folder = out or Path('runs') / tables.resolve().name
    if holds_tables(str(folder)):
        raise typer.BadParameter(
            f"'{folder}' holds tables; choose another folder with --out"
        )
    layout = layout_of(tables, layout_fields(settings or ()))
    config = fraud_config(tables, layout, sep, test, detector)
    given = _options(test, settings or (), threshold, calibration, seed, sep)
    command = shlex.join(
        ['teg', 'train', str(tables), '--out', str(folder), *given]
    )
    with RunFolder(folder).lock():
        training = FraudTraining(config, folder)
        for text in training.card['warnings']:
            typer.echo(f'Warning: {text}', err=True)
        if training.num_finished:
            typer.echo(
                f'Going on after network {training.num_finished} of '
                f'{detector.ensemble}.',
                err=True,
            )
        with short_warnings():
            result = _run(training, command)
    if result is None:
        typer.echo(
            f'Interrupted; finished networks are in {folder}. Go on with the '
            f'same command: {command}',
            err=True,
        )
        raise typer.Exit(130)
    if json:
        print_json(result)
        return
    found = result['validation']
    typer.echo(
        f'{result["num_nodes"]} nodes and {result["num_edges"]} edges; on '
        f'validation nodes AUPRC {found["auprc"]:.4f}, and at the threshold '
        f'{result["threshold"]:.4f}: {found["alarms"]} alarms, '
        f'{found["caught"]} of them right, {found["missed"]} anomalies '
        f'missed; files in {folder}'
    )
    if result['num_held_out']:
        typer.echo(
            f'{result["num_held_out"]} nodes were held out: teg evaluate '
            f'{shlex.quote(str(folder))}'
        )


def _run(training: 'FraudTraining', command: str) -> Any:
    """The result, or :obj:`None` if a signal stopped the training."""
    from tqdm import tqdm

    ensemble, epochs = training.detector.ensemble, training.detector.epochs
    # disable=None: no bar unless standard error is a terminal
    with (
        tqdm(total=ensemble * epochs, unit='epoch', disable=None) as bar,
        interruptible('evaluation') as interrupted,
    ):

        def on_record(record: dict[str, Any]) -> None:
            # a network that stops early leaves its other epochs out
            bar.update(record['member'] * epochs + record['epoch'] - bar.n)
            bar.set_postfix_str(
                f'network {record["member"] + 1} of {ensemble}, loss '
                f'{record["loss"]:.3f}, validation {record["val_auprc"]:.3f}'
            )
            if interrupted:
                raise KeyboardInterrupt

        try:
            return training.run(command, on_record)
        except KeyboardInterrupt:
            return None


def _options(
    test: float,
    settings: Sequence[str],
    threshold: str,
    calibration: Method,
    seed: int,
    sep: str,
) -> list[str]:
    """Options that are not the default ones."""
    given = []
    for name, value, default in (
        ('--test', str(test), '0.2'),
        ('--threshold', threshold, 'macro_f1'),
        ('--calibration', calibration.value, 'sigmoid'),
        ('--seed', str(seed), '0'),
        ('--sep', sep, ','),
    ):
        if value != default:
            given += [name, value]
    for text in settings:
        given += ['--set', text]
    return given
