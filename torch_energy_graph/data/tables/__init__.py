"""Tables of nodes and edges: places, ids, labels, kinds, encoders."""

from torch_energy_graph.data.tables.graph_table import GraphTable
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.table import Table

__all__ = ['GraphTable', 'Table', 'TableLayout']
