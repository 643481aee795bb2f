"""``teg predict``: scores of new nodes, written while they are made."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torch_energy_graph import __version__
from torch_energy_graph.cli.fraud.tables import (
    Base,
    Edges,
    Model,
    edge_files,
    read_tables,
    scoring_layout,
    short_warnings,
)
from torch_energy_graph.cli.output import Json, print_json
from torch_energy_graph.cli.tables import LayoutFields, Separator

if TYPE_CHECKING:
    from torch_energy_graph.data.tables import TableLayout

__all__ = ['predict']


def predict(
    model: Model,
    nodes: Annotated[Path, typer.Option(help='Node table, CSV or Parquet.')],
    out: Annotated[
        Path, typer.Option(help='Where to write: .csv or .parquet.')
    ],
    edges: Edges = None,
    base: Base = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help='Nodes that are scored at a time.')
    ] = 10_000,
    fields: LayoutFields = None,
    sep: Separator = ',',
    json: Json = False,
) -> None:
    """Score the nodes of a table; what was stopped goes on.

    Columns: id, probability, flagged, std (how far the networks disagree) and
    energy.
    """
    from tqdm import tqdm

    from torch_energy_graph.bench.fraud import model_folder
    from torch_energy_graph.detect import EnergyFraudDetector
    from torch_energy_graph.detect.score_file import ScoreFile, check_ending
    from torch_energy_graph.detect.stream import score_batches

    check_ending(out)
    folder = model_folder(model)
    detector = EnergyFraudDetector.load(folder)
    layout = scoring_layout(detector, fields or ())
    table, chosen = read_tables(nodes, edges or (), base, layout, sep)
    task = _task(
        _files(folder, nodes, edges or (), base), layout, sep, batch_size
    )
    with (
        short_warnings(),
        ScoreFile(out, task) as file,
        tqdm(total=len(chosen), unit='node', disable=None) as bar,
    ):
        resumed = file.num_rows
        bar.update(resumed)
        for rows in score_batches(
            detector, table, chosen, batch_size, resumed
        ):
            file.append(rows)
            bar.update(len(rows))
        file.finish([table.node_id[i] for i in chosen])
    if json:
        print_json(
            {
                'out': str(out),
                'num_nodes': len(chosen),
                'num_resumed': resumed,
                'threshold': detector.threshold_,
            }
        )
        return
    before = f', {resumed} of them before' if resumed else ''
    typer.echo(f'{len(chosen)} nodes were scored{before}: {out}')


def _files(
    folder: Path, nodes: Path, edges: Sequence[str], base: Path | None
) -> list[tuple[str, Path]]:
    """All files that scores depend on, and what they are."""
    from torch_energy_graph.bench.fraud import table_files

    # it names the weights by their SHA-256
    files = [('model', folder / 'state.json'), ('nodes', nodes)]
    files += [(f'edges {name}', f) for name, f in edge_files(edges).items()]
    if base is not None:
        files += [(f'base {file.name}', file) for file in table_files(base)]
    return files


def _task(
    files: Sequence[tuple[str, Path]],
    layout: 'TableLayout',
    sep: str,
    batch_size: int,
) -> str:
    """A hash of all that the scores depend on."""
    from torch_energy_graph.bench.fraud import file_digest

    told = [(name, file_digest(file)) for name, file in files]
    text = repr((__version__, told, layout.to_dict(), sep, batch_size))
    return hashlib.sha256(text.encode()).hexdigest()
