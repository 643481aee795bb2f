"""Graphs in and out of other forms, and checks of what comes in."""

from torch_energy_graph.data.card import data_card
from torch_energy_graph.data.dgl_binary import (
    DGLGraph,
    read_dgl_binary,
)
from torch_energy_graph.data.from_csv import (
    from_csv,
    from_folder,
)
from torch_energy_graph.data.from_hetero import from_hetero
from torch_energy_graph.data.from_networkx import from_networkx
from torch_energy_graph.data.from_pandas import from_pandas
from torch_energy_graph.data.mat import (
    FraudMat,
    read_fraud_mat,
)
from torch_energy_graph.data.patches import (
    grid_graph_to_image,
    image_to_grid_graph,
)
from torch_energy_graph.data.preprocessing import (
    Preprocessing,
    TableWarning,
)
from torch_energy_graph.data.tables import (
    GraphTable,
    TableLayout,
)
from torch_energy_graph.data.validate import check_graph

__all__ = [
    'DGLGraph',
    'FraudMat',
    'GraphTable',
    'Preprocessing',
    'TableLayout',
    'TableWarning',
    'check_graph',
    'data_card',
    'from_csv',
    'from_folder',
    'from_hetero',
    'from_networkx',
    'from_pandas',
    'grid_graph_to_image',
    'image_to_grid_graph',
    'read_dgl_binary',
    'read_fraud_mat',
]
