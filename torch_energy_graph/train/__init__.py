"""Training loops of node-level detectors and classifiers, and their files."""

from torch_energy_graph.train.bag_folds import (
    FoldResult,
    bag_folds,
    bag_learner,
    cross_validate_bags,
)
from torch_energy_graph.train.bags import (
    BagFit,
    BagOptions,
    BagTrainer,
    bag_logits,
    fit_bags,
)
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
    Objective,
    TrainOptions,
)
from torch_energy_graph.train.early_stopping import EarlyStopping
from torch_energy_graph.train.image import (
    ImageTrainer,
    ImageTrainOptions,
    completion_error,
    draw_masks,
)
from torch_energy_graph.train.loop import (
    FitResult,
    fit,
)
from torch_energy_graph.train.masking import (
    BoxMasking,
    ScatterMasking,
)
from torch_energy_graph.train.seed import seed_everything

__all__ = [
    'BagFit',
    'BagOptions',
    'BagTrainer',
    'BoxMasking',
    'ClassifierResult',
    'ClassifierTrainer',
    'EarlyStopping',
    'FitResult',
    'FoldResult',
    'ImageTrainOptions',
    'ImageTrainer',
    'Objective',
    'ScatterMasking',
    'TrainOptions',
    'bag_folds',
    'bag_learner',
    'bag_logits',
    'completion_error',
    'cross_validate_bags',
    'draw_masks',
    'fit',
    'fit_bags',
    'load_state',
    'load_tensors',
    'save_state',
    'save_tensors',
    'seed_everything',
    'write_atomic',
]
