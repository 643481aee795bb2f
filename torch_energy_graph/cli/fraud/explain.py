"""``teg explain``: reasons for the score of one node."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torch_energy_graph.cli.fraud.tables import (
    Base,
    Edges,
    Model,
    read_tables,
    scoring_layout,
    short_warnings,
)
from torch_energy_graph.cli.output import Json, print_json
from torch_energy_graph.cli.tables import LayoutFields, Separator

if TYPE_CHECKING:
    from torch_energy_graph.detect import Explanation

__all__ = ['explain']


def explain(
    model: Model,
    node: Annotated[str, typer.Option(help='Id of the node.')],
    nodes: Annotated[
        Path | None,
        typer.Option(help='Node table; the tables of the training if absent.'),
    ] = None,
    edges: Edges = None,
    base: Base = None,
    top: Annotated[
        int, typer.Option(min=0, help='Neighbours and features to show.')
    ] = 5,
    features: Annotated[
        bool,
        typer.Option(
            '--features',
            help='Also tell features; trains an explainer, which takes '
            'minutes where neighbourhoods are large.',
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help='Draw the neighbours into a PNG file.')
    ] = None,
    fields: LayoutFields = None,
    sep: Separator = ',',
    json: Json = False,
) -> None:
    """Say what the score and the energy of a node rest on."""
    from torch_energy_graph.bench.fraud import load_run, model_folder
    from torch_energy_graph.detect import EnergyFraudDetector

    if nodes is None:
        if edges or base or fields:
            raise typer.BadParameter(
                '--edges, --base and --set belong to --nodes'
            )
        run = load_run(model)
        detector, table = run.detector, run.table
    else:
        detector = EnergyFraudDetector.load(model_folder(model))
        layout = scoring_layout(detector, fields or ())
        table, _ = read_tables(nodes, edges or (), base, layout, sep)
    # ids are text here, and may be numbers there
    found = {str(i): i for i in table.node_id}.get(node, node)
    with short_warnings():
        reasons = detector.explain(table, found, top, features)
    if out is not None:
        _draw(reasons, out)
    if json:
        print_json(_record(reasons, detector.threshold_))
        return
    for line in _lines(reasons, detector.threshold_, top):
        typer.echo(line)


def _draw(reasons: 'Explanation', out: Path) -> None:
    from torch_energy_graph.plot import new_figure, png_bytes
    from torch_energy_graph.train import write_atomic

    figure = new_figure(6, 6)
    reasons.plot(figure.subplots())
    write_atomic(out, png_bytes(figure, dpi=140))


def _record(reasons: 'Explanation', threshold: float) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(reasons), 'threshold': threshold}


def _lines(reasons: 'Explanation', threshold: float, top: int) -> list[str]:
    flagged = reasons.probability >= threshold
    lines = [
        f'{reasons.node}: probability {reasons.probability:.4f}, '
        f'{"flagged" if flagged else "passed"} (threshold {threshold:.4f})',
        '',
        f'Probability without a neighbour, and what the neighbour adds '
        f'({reasons.num_evaluated} of {reasons.num_neighbors} evaluated):',
    ]
    for row in reasons.neighbors:
        lines.append(
            f'  {row["neighbor"]!s:24}{row["without"]:10.4f}'
            f'{row["effect"]:+10.4f}'
        )
    if reasons.features:
        lines += ['', 'Features the score rests on:']
        for row in reasons.features[:top]:
            lines.append(f'  {row["feature"]:24}{row["share"]:10.1%}')
    lines += ['', 'Energy, which is no score, and its parts:']
    table = reasons.energy_table()
    for part, energy in table.groupby('part')['energy'].sum().items():
        lines.append(f'  {part:24}{energy:10.4f}')
    lines.append(f'  {"sum":24}{reasons.energy:10.4f}')
    return lines
