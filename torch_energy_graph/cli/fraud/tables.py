"""Which tables a detector scores: ``--nodes``, ``--edges``, ``--base``."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torch_energy_graph.cli.tables import with_fields

if TYPE_CHECKING:
    from torch_energy_graph.data import GraphTable
    from torch_energy_graph.data.tables import TableLayout
    from torch_energy_graph.detect import EnergyFraudDetector

__all__ = [
    'Base',
    'Edges',
    'Model',
    'edge_files',
    'read_tables',
    'scoring_layout',
    'short_warnings',
]

Model = Annotated[
    Path,
    typer.Option(help="Folder of 'teg train' on tables, or of a detector."),
]
Edges = Annotated[
    list[str] | None,
    typer.Option(
        metavar='FILE',
        help='Edge table; or TYPE=FILE, several times, for one of each type.',
    ),
]
Base = Annotated[
    Path | None,
    typer.Option(
        help='Folder of tables that grow: new edges may name its nodes.'
    ),
]


def scoring_layout(
    detector: 'EnergyFraudDetector', fields: Sequence[str]
) -> 'TableLayout':
    """How tables are read that a detector is to score."""
    if detector.preprocessing_ is None:
        raise ValueError(
            'this detector was fitted on a graph (Data), not on tables; score '
            'graphs in Python'
        )
    layout = detector.preprocessing_.layout_.for_scoring()
    return with_fields(layout, fields)


def read_tables(
    nodes: Path,
    edges: Sequence[str],
    base: Path | None,
    layout: 'TableLayout',
    sep: str,
) -> tuple['GraphTable', range]:
    """The graph, and the numbers of the nodes that are new.

    Args:
        nodes (Path): Node table.
        edges (sequence of str): ``FILE``, or ``TYPE=FILE`` each.
        base (Path, optional): Folder of the graph that grows.
        layout (TableLayout): How the tables are read.
        sep (str): What separates the cells of CSV files.
    """
    from torch_energy_graph.data.from_csv import from_csv, from_folder

    files = edge_files(edges)
    old = None if base is None else from_folder(base, layout, sep)
    table = from_csv(nodes, files.get('', files), layout, sep, old)
    first = 0 if old is None else old.num_nodes
    return table, range(first, table.num_nodes)


def edge_files(edges: Sequence[str]) -> dict[str, Path]:
    """Files by the name of their type, '' for one that tells no type."""
    files = {}
    for text in edges:
        name, equals, file = text.partition('=')
        if not equals or Path(text).is_file():
            name, file = '', text
        files[name] = Path(file)
    if len(files) < max(1, len(edges)) or ('' in files and len(files) > 1):
        raise typer.BadParameter(
            'expected --edges FILE once, or --edges TYPE=FILE for each type'
        )
    return files


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print warnings to users, a line each, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        yield
    told = [w.message for w in caught if issubclass(w.category, UserWarning)]
    for text in dict.fromkeys(map(str, told)):
        typer.echo(f'Warning: {text}', err=True)
