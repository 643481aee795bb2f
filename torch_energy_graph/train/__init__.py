"""The training loop of node-level detectors."""

from torch_energy_graph.train.early_stopping import EarlyStopping
from torch_energy_graph.train.loop import FitResult, fit
from torch_energy_graph.train.seed import seed_everything

__all__ = ['EarlyStopping', 'FitResult', 'fit', 'seed_everything']
