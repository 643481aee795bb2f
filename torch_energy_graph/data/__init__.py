"""Graphs in and out of other forms, and checks of what comes in."""

from torch_energy_graph.data.validate import check_graph

__all__ = ['check_graph']
