"""A graph whose features are still columns of tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_energy_graph.data.tables.cells import check_cells
from torch_energy_graph.data.tables.edges import (
    Edges,
    read_edges,
    resolve,
    with_reverse,
)
from torch_energy_graph.data.tables.ids import (
    id_keys,
    original_ids,
    unique_nodes,
)
from torch_energy_graph.data.tables.kinds import Kind, find_kinds
from torch_energy_graph.data.tables.labels import read_labels
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.table import Table, nearest, require_pandas

__all__ = ['GraphTable', 'assemble']

Keys = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class GraphTable:
    r"""Numbered nodes and edges beside the columns that describe them.

    Made by :func:`~torch_energy_graph.data.from_csv` and its like; a
    :class:`~torch_energy_graph.data.Preprocessing` that was fitted on
    training nodes makes it a PyG graph.

    Attributes:
        nodes: Feature columns of the nodes, :math:`N` rows.
        node_id: Ids in the order of the nodes, as text or whole numbers.
        y: Labels 0, 1 or -1 (unknown), :math:`[N]`.
        edges: Feature columns of the edges, :math:`E` rows.
        edge_index: Source and target of each edge, :math:`[2, E]`.
        edge_type: Number of each edge's relation, :math:`[E]`; :obj:`None`
            if the tables name no relations.
        relations: Names of the relations, sorted.
        layout: How the tables were read.
        num_added: Number of nodes that only edges name.
        notes: In words, what was changed or decided while reading.
    """

    nodes: Table
    node_id: list[Any]
    y: Tensor
    edges: Table
    edge_index: Tensor
    edge_type: Tensor | None
    relations: tuple[str, ...]
    layout: TableLayout
    num_added: int
    notes: tuple[str, ...]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def num_edges(self) -> int:
        """Number of directed edges."""
        return len(self.edges)

    @cached_property
    def node_kinds(self) -> dict[str, Kind]:
        """What each node column holds; ValueError for a bad cell."""
        return find_kinds(self.nodes, self.nodes.columns, self.layout)

    @cached_property
    def edge_kinds(self) -> dict[str, Kind]:
        """What each edge column holds; ValueError for a bad cell."""
        return find_kinds(self.edges, self.edges.columns, self.layout)

    def __repr__(self) -> str:
        return (
            f'GraphTable(nodes=[{self.num_nodes}, {len(self.nodes.columns)}]'
            f', edges=[{self.num_edges}, {len(self.edges.columns)}], '
            f'relations={list(self.relations)})'
        )


def assemble(
    nodes: Table,
    edges: Sequence[tuple[str | None, Table]],
    layout: TableLayout,
    base: GraphTable | None = None,
) -> GraphTable:
    """A graph from a node table and the edge tables of its relations.

    Args:
        nodes (Table): One row per node.
        edges (sequence): Edge tables with the name of their relation, see
            :func:`read_edges`.
        layout (TableLayout): Which column is what.
        base (GraphTable, optional): A graph that grows: its nodes and edges
            come first, and edges may name its nodes. (default: :obj:`None`)
    """
    for table in (nodes, *(table for _, table in edges)):
        check_cells(table)
    _check_names(nodes, [table for _, table in edges], layout)
    keys = id_keys(nodes, layout.id, 'id')
    if not len(keys):
        raise ValueError(f'{nodes.title()}: no rows; a graph needs nodes')
    nodes, keys, merged = unique_nodes(nodes, layout.id, keys)
    ids = original_ids(nodes.frame[layout.id], keys)
    y, notes = read_labels(nodes, layout)
    if merged:
        notes.append(f'{merged} repeated rows of {nodes.title()} were merged')
    used = (layout.id, layout.label, *layout.ignore)
    nodes = nodes.only([c for c in nodes.columns if c not in used])
    rows = read_edges(edges, layout)
    if base is not None:
        nodes, keys, ids, y = _behind(base, nodes, keys, ids, y)
    place, added = resolve(rows, nodes, keys)
    if added.size:
        notes.append(
            f'{added.size} ids of edges became nodes without features'
        )
        nodes, ids = _with_added(nodes, added, rows, place, ids)
        y = np.concatenate([y, np.full(added.size, -1)])
    graph = _connected(nodes, ids, y, rows, place, added.size, notes)
    return graph if base is None else _grown(base, graph)


def _connected(
    nodes: Table,
    ids: list[Any],
    y: NDArray[np.int64],
    rows: Edges,
    place: NDArray[np.int64],
    num_added: int,
    notes: list[str],
) -> GraphTable:
    kept = np.flatnonzero((place >= 0).all(axis=0))
    if len(kept) < place.shape[1]:
        dropped = place.shape[1] - len(kept)
        notes.append(f'{dropped} edges with ids without a node were dropped')
    edge_index, table = place[:, kept], rows.table.take(kept)
    relations: tuple[str, ...] = ()
    number = np.zeros(len(kept), np.int64)
    if rows.relation is not None:
        names, number = np.unique(
            rows.relation[kept].astype(str), return_inverse=True
        )
        relations = tuple(names.tolist())
    if not rows.layout.directed:
        edge_index, origin = with_reverse(edge_index, number)
        added = len(origin) - len(kept)
        if added:
            notes.append(f'{added} edges were added as reverses of others')
        table, number = table.take(origin), number[origin]
    return GraphTable(
        nodes=nodes,
        node_id=ids,
        y=torch.from_numpy(y.astype(np.int64)),
        edges=table,
        edge_index=torch.from_numpy(np.ascontiguousarray(edge_index)),
        edge_type=torch.from_numpy(number) if relations else None,
        relations=relations,
        layout=rows.layout,
        num_added=num_added,
        notes=tuple(notes),
    )


def _with_added(
    nodes: Table,
    added: Keys,
    rows: Edges,
    place: NDArray[np.int64],
    ids: list[Any],
) -> tuple[Table, list[Any]]:
    """Nodes of which only edges know; their place is that of an edge."""
    _, first = np.unique(place.T.reshape(-1), return_index=True)
    origin = rows.table.take(first[-added.size :] // 2).only([])
    numbers = all(isinstance(i, int) for i in ids)
    numbers = numbers and all(key.lstrip('-').isdecimal() for key in added)
    more = [int(key) for key in added] if numbers else list(added)
    return Table.stack([nodes, origin]), ids + more


def _behind(
    base: GraphTable,
    nodes: Table,
    keys: Keys,
    ids: list[Any],
    y: NDArray[np.int64],
) -> tuple[Table, Keys, list[Any], NDArray[np.int64]]:
    old = np.array([*map(str, base.node_id)], dtype=object)
    again = np.flatnonzero(require_pandas().Index(keys).isin(old))
    if again.size:
        raise ValueError(
            f"{nodes.at(again[0])}: id '{keys[again[0]]}' is already in the "
            f'graph that grows ({again.size} such rows); give new nodes only'
        )
    return (
        Table.stack([base.nodes, nodes]),
        np.concatenate([old, keys]),
        base.node_id + ids,
        np.concatenate([base.y.numpy(), y]),
    )


def _grown(base: GraphTable, graph: GraphTable) -> GraphTable:
    """Put the edges of the base before those of the graph."""
    if base.relations and graph.num_edges and not graph.relations:
        raise ValueError(
            f'{graph.edges.title()}: expected a relation for each edge, as '
            f'in the graph that grows ({", ".join(base.relations)})'
        )
    relations = tuple(sorted({*base.relations, *graph.relations}))
    types = [_renumbered(part, relations) for part in (base, graph)]
    return replace(
        graph,
        edges=Table.stack([base.edges, graph.edges]),
        edge_index=torch.cat([base.edge_index, graph.edge_index], dim=1),
        edge_type=torch.cat(types) if relations else None,
        relations=relations,
        num_added=base.num_added + graph.num_added,
        notes=(*base.notes, *graph.notes),
    )


def _renumbered(graph: GraphTable, relations: tuple[str, ...]) -> Tensor:
    if graph.edge_type is None:
        return torch.zeros(graph.num_edges, dtype=torch.long)
    number = torch.tensor([relations.index(name) for name in graph.relations])
    return number[graph.edge_type]


def _check_names(
    nodes: Table, edges: Sequence[Table], layout: TableLayout
) -> None:
    known = list(dict.fromkeys(c for t in (nodes, *edges) for c in t.columns))
    for field in ('ignore', 'categorical', 'timestamps'):
        for name in getattr(layout, field):
            if name not in known:
                raise ValueError(
                    f"no table has the column '{name}' of TableLayout("
                    f'{field}=...); {nearest(name, known)}'
                )
