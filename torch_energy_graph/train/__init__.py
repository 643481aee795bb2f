"""Training loops of node-level detectors and classifiers, and their files."""

from torch_energy_graph.train.checkpoint import (
    load_state,
    load_tensors,
    save_state,
    save_tensors,
    write_atomic,
)
from torch_energy_graph.train.classifier import (
    ClassifierResult,
    ClassifierTrainer,
    TrainOptions,
)
from torch_energy_graph.train.early_stopping import EarlyStopping
from torch_energy_graph.train.loop import FitResult, fit
from torch_energy_graph.train.seed import seed_everything

__all__ = [
    'ClassifierResult',
    'ClassifierTrainer',
    'EarlyStopping',
    'FitResult',
    'TrainOptions',
    'fit',
    'load_state',
    'load_tensors',
    'save_state',
    'save_tensors',
    'seed_everything',
    'write_atomic',
]
