"""A graph from NetworkX."""

from dataclasses import replace
from typing import Any

from torch_energy_graph.data.from_pandas import from_pandas
from torch_energy_graph.data.tables.graph_table import GraphTable
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.table import require_pandas

__all__ = ['from_networkx']


def from_networkx(graph: Any, layout: TableLayout | None = None) -> GraphTable:
    """A graph from a NetworkX graph, whose attributes are the columns.

    Args:
        graph (networkx.Graph): Directed or not, with or without parallel
            edges. Nodes are the ids.
        layout (TableLayout, optional): Names of the attributes that hold
            labels and relations; :obj:`directed` follows the graph. If
            :obj:`None`, the default names. (default: :obj:`None`)

    Raises:
        ValueError: If an attribute has the name of the ids or of an end.
    """
    layout = layout or TableLayout()
    nodes = [(layout.id, dict(a), n) for n, a in graph.nodes(data=True)]
    ends = list(graph.edges(data=True))
    sources = [(layout.source, dict(a), u) for u, _, a in ends]
    targets = [(layout.target, a, v) for (_, v, a) in ends]
    for name, attributes, _ in (*nodes, *sources, *targets):
        if name in attributes:
            raise ValueError(
                f"an attribute is named '{name}', as the column of the ids; "
                f'give this one another name in TableLayout'
            )
    pandas = require_pandas()
    node_frame = pandas.DataFrame(
        [{name: node, **rest} for name, rest, node in nodes],
        columns=None if nodes else [layout.id],
    )
    edge_frame = pandas.DataFrame(
        [
            {layout.source: u, layout.target: v, **attributes}
            for u, v, attributes in ends
        ],
        columns=None if ends else [layout.source, layout.target],
    )
    layout = replace(layout, directed=graph.is_directed())
    return from_pandas(node_frame, edge_frame, layout)
