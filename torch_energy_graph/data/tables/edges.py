"""Edge tables: ends by position, relations by number, both directions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from torch_energy_graph.data.tables.cells import texts
from torch_energy_graph.data.tables.ids import id_keys
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.table import Table, require_pandas

__all__ = ['Edges', 'read_edges', 'resolve', 'with_reverse']

Array = NDArray[np.int64]
Keys = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Edges:
    r"""Rows of all edge tables, one below the other.

    Attributes:
        table: All columns that are features.
        source: Ids of the sources, :math:`[E]`.
        target: Ids of the targets, :math:`[E]`.
        relation: Names of the relations, :math:`[E]`; :obj:`None` if there
            are none.
        layout: How the tables were read.
    """

    table: Table
    source: Keys
    target: Keys
    relation: Keys | None
    layout: TableLayout


def read_edges(
    tables: Sequence[tuple[str | None, Table]], layout: TableLayout
) -> Edges:
    """Ids and relations of the rows of several tables.

    Args:
        tables (sequence): A table for each relation, with its name; a single
            table without a name may have relations in a column.
        layout (TableLayout): Names of the columns.
    """
    read = [_read(name, table, layout) for name, table in tables]
    named = [edges.relation for edges in read if edges.relation is not None]
    return Edges(
        Table.stack([edges.table for edges in read]),
        np.concatenate([edges.source for edges in read]),
        np.concatenate([edges.target for edges in read]),
        np.concatenate(named) if named else None,
        layout,
    )


def resolve(edges: Edges, nodes: Table, keys: Keys) -> tuple[Array, Keys]:
    """Positions of the ends of the edges among the ids of nodes.

    Returns:
        tuple: Positions :math:`[2, E]`, -1 at ends without a node that are
        to be dropped, and the ids of nodes that were added behind the others.

    Raises:
        ValueError: If an id has no node, or none has one.
    """
    pandas = require_pandas()
    ends = np.stack([edges.source, edges.target])  # [2, E]
    place = pandas.Index(keys).get_indexer(ends.reshape(-1)).reshape(2, -1)
    absent = place < 0
    added = np.empty(0, dtype=object)
    if not absent.any():
        return place, added
    if absent.all() and len(keys):
        raise ValueError(
            f'{edges.table.title()}: no id is in {nodes.title()} (such as '
            f"'{ends[0, 0]}' here and '{keys[0]}' there); write ids in the "
            f'same way in both'
        )
    if edges.layout.missing_nodes == 'error':
        raise ValueError(_unknown(edges, nodes, ends, absent))
    if edges.layout.missing_nodes == 'add':
        added = pandas.unique(ends.T[absent.T])  # in order of the rows
        extra = pandas.Index(added).get_indexer(ends[absent])
        place[absent] = len(keys) + extra
    return place, added


def with_reverse(place: Array, relation: Array) -> tuple[Array, Array]:
    """Edges in both directions.

    A list that holds every edge as often in one direction as in the other
    stays as it is; a loop stays one edge.

    Args:
        place (ndarray): Edges, :math:`[2, E]`.
        relation (ndarray): Their relations, :math:`[E]`.

    Returns:
        tuple: Edges :math:`[2, E']`, and the row of each, :math:`[E']`.
    """
    rows = np.arange(place.shape[1])
    forward = np.stack([relation, place[0], place[1]])
    backward = np.stack([relation, place[1], place[0]])
    if np.array_equal(_sorted(forward), _sorted(backward)):
        return place, rows
    other = rows[place[0] != place[1]]
    both = np.concatenate([place, place[::-1, other]], axis=1)
    return both, np.concatenate([rows, other])


def _read(name: str | None, table: Table, layout: TableLayout) -> Edges:
    source = id_keys(table, layout.source, 'source')
    target = id_keys(table, layout.target, 'target')
    used = [layout.source, layout.target]
    relation = None
    if name is not None:
        relation = np.full(len(table), name, dtype=object)
    elif layout.relation is not None and (
        layout.relation in table.columns or not layout.optional('relation')
    ):
        relation = _relation(table, layout.relation)
        used.append(layout.relation)
    features = [c for c in table.columns if c not in (*used, *layout.ignore)]
    return Edges(table.only(features), source, target, relation, layout)


def _relation(table: Table, column: str) -> Keys:
    names = texts(table.need(column, 'relation'))
    empty = np.flatnonzero(names == '')
    if empty.size:
        raise ValueError(
            f'{table.at(int(empty[0]), column)}: the type of the edge is '
            f'missing ({empty.size} such rows); fill it in, or use '
            f'TableLayout(relation=None)'
        )
    return names


def _unknown(
    edges: Edges, nodes: Table, ends: Keys, absent: NDArray[np.bool_]
) -> str:
    row = int(np.flatnonzero(absent.any(axis=0))[0])
    side = int(np.flatnonzero(absent[:, row])[0])
    column = (edges.layout.source, edges.layout.target)[side]
    count = len({*ends[absent]})
    return (
        f"{edges.table.at(row, column)}: id '{ends[side, row]}' is in no row "
        f'of {nodes.title()} ({count} such ids); add these nodes, or use '
        f"TableLayout(missing_nodes='add') for nodes without features, or "
        f"'drop' to leave out their edges"
    )


def _sorted(rows: Array) -> Array:
    return rows[:, np.lexsort(rows)]
