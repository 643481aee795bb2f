"""Graphs in and out of other forms, and checks of what comes in."""

from torch_energy_graph.data.dgl_binary import DGLGraph, read_dgl_binary
from torch_energy_graph.data.mat import FraudMat, read_fraud_mat
from torch_energy_graph.data.validate import check_graph

__all__ = [
    'DGLGraph',
    'FraudMat',
    'check_graph',
    'read_dgl_binary',
    'read_fraud_mat',
]
