"""A graph from data frames."""

from collections.abc import Mapping

from torch_energy_graph.data.tables.graph_table import GraphTable, assemble
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.table import Frame, Table, require_pandas

__all__ = ['from_pandas']


def from_pandas(
    nodes: Frame,
    edges: Frame | Mapping[str, Frame],
    layout: TableLayout | None = None,
    base: GraphTable | None = None,
) -> GraphTable:
    r"""A graph from a data frame of nodes and one or more of edges.

    Nodes and edges keep the order of their rows. Equal rows of a node are
    merged; parallel edges and self-loops stay, and count as often as they
    stand.

    Args:
        nodes (pandas.DataFrame): One row per node.
        edges (pandas.DataFrame or Mapping): One row per edge; or, by the name
            of the relation, a frame for each.
        layout (TableLayout, optional): Which column is what; if
            :obj:`None`, that of :obj:`base` or the default names.
            (default: :obj:`None`)
        base (GraphTable, optional): A graph that grows: its nodes and edges
            come first, and the new edges may name its nodes.
            (default: :obj:`None`)

    Raises:
        TypeError: If these are no data frames, or a cell is a list or the
            like.
        ValueError: If a row cannot be used; the message names it.

    Example:
        >>> import pandas
        >>> nodes = pandas.DataFrame({
        ...     'id': ['ann', 'bob', 'cem'],
        ...     'amount': [3.5, None, 1.0],
        ...     'label': [0, 1, None],
        ... })
        >>> edges = pandas.DataFrame({'source': ['ann'], 'target': ['cem']})
        >>> table = from_pandas(nodes, edges)
        >>> table.edge_index.tolist(), table.y.tolist()
        ([[0, 2], [2, 0]], [0, 1, -1])
    """
    layout = layout or (base.layout if base is not None else TableLayout())
    parts: list[tuple[str | None, Table]]
    if isinstance(edges, Mapping):
        if not edges:
            raise ValueError(
                "'edges' expects a frame for each relation (got none)"
            )
        parts = [(n, _table(f, f'edges[{n!r}]')) for n, f in edges.items()]
    else:
        parts = [(None, _table(edges, 'edges'))]
    return assemble(_table(nodes, 'nodes'), parts, layout, base)


def _table(frame: Frame, name: str) -> Table:
    if not isinstance(frame, require_pandas().DataFrame):
        raise TypeError(
            f"'{name}' expects a pandas.DataFrame (got "
            f"'{type(frame).__name__}'); use from_csv for files"
        )
    columns = [str(column) for column in frame.columns]
    twice = {column for column in columns if columns.count(column) > 1}
    if twice:
        raise ValueError(
            f"'{name}' has several columns named {sorted(twice)}; rename them"
        )
    return Table.of(frame.set_axis(columns, axis=1), name)
