"""A graph from files: CSV or Parquet."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from torch_energy_graph.data.tables.files import read_table
from torch_energy_graph.data.tables.graph_table import GraphTable, assemble
from torch_energy_graph.data.tables.layout import TableLayout, read_layout

__all__ = ['from_csv', 'from_folder']

FilePath = str | os.PathLike[str]

_ENDINGS = ('.csv', '.csv.gz', '.parquet')
_RELATION = re.compile(r'edges_(.+?)(\.csv|\.csv\.gz|\.parquet)')


def from_csv(
    nodes: FilePath,
    edges: FilePath | Mapping[str, FilePath],
    layout: TableLayout | None = None,
    sep: str = ',',
    base: GraphTable | None = None,
) -> GraphTable:
    r"""A graph from a file of nodes and one or more of edges.

    Files are CSV in UTF-8, or Parquet if their name ends in ``.parquet``.
    Nodes and edges keep the order of their rows. Equal rows of a node are
    merged; parallel edges and self-loops stay, and count as often as they
    stand.

    Args:
        nodes (str or Path): One row per node.
        edges (str or Path, or Mapping): One row per edge; or, by the name of
            the relation, a file for each.
        layout (TableLayout, optional): Which column is what; if
            :obj:`None`, that of :obj:`base` or the default names.
            (default: :obj:`None`)
        sep (str, optional): What separates the cells of a CSV file.
            (default: :obj:`','`)
        base (GraphTable, optional): A graph that grows: its nodes and edges
            come first, and the new edges may name its nodes.
            (default: :obj:`None`)

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If a file or a row cannot be used; the message names it.
    """
    layout = layout or (base.layout if base is not None else TableLayout())
    if len(sep) != 1:
        raise ValueError(f"'sep' expects one character (got {sep!r})")
    many = edges if isinstance(edges, Mapping) else {None: edges}
    if not many:
        raise ValueError("'edges' expects a file for each relation (got none)")
    parts = [(n, read_table(Path(p), sep)) for n, p in many.items()]
    return assemble(read_table(Path(nodes), sep), parts, layout, base)


def from_folder(
    folder: FilePath, layout: TableLayout | None = None, sep: str = ','
) -> GraphTable:
    """A graph from ``nodes.csv`` and ``edges.csv`` in a folder.

    Each may end in ``.csv.gz`` or ``.parquet`` instead. Without an edge file
    of this name, ``edges_NAME.csv`` holds the edges of the relation NAME.

    Args:
        folder (str or Path): The folder.
        layout (TableLayout, optional): Which column is what; if
            :obj:`None`, the fields in the folder's ``layout.json`` if there
            is one, and the default names. (default: :obj:`None`)
        sep (str, optional): What separates the cells of a CSV file.
            (default: :obj:`','`)
    """
    folder = Path(folder)
    nodes, edges = _one(folder, 'nodes'), _one(folder, 'edges')
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [(_RELATION.fullmatch(path.name), path) for path in files]
    relations = {match[1]: path for match, path in found if match}
    if nodes is None or (edges is None and not relations):
        what = 'nodes.csv' if nodes is None else 'edges.csv'
        raise FileNotFoundError(
            f"no '{what}' in '{folder}'; expected nodes.csv and edges.csv (or "
            f'.csv.gz, .parquet), or a file edges_NAME.csv for each relation'
        )
    if edges is not None and relations:
        raise ValueError(
            f"'{folder}' holds '{edges.name}' and "
            f"'{next(iter(relations.values())).name}'; keep one file of all "
            f'edges, or one for each relation'
        )
    layout = layout or read_layout(folder / 'layout.json')
    return from_csv(nodes, edges or relations, layout, sep)


def _one(folder: Path, stem: str) -> Path | None:
    found = [folder / f'{stem}{end}' for end in _ENDINGS]
    found = [path for path in found if path.is_file()]
    if len(found) > 1:
        raise ValueError(
            f"'{folder}' holds '{found[0].name}' and '{found[1].name}'; keep "
            f'one'
        )
    return found[0] if found else None
