"""The command line, ``teg``. Commands import what is heavy when they run."""

from torch_energy_graph.cli.app import main

__all__ = ['main']
