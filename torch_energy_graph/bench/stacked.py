"""Networks that also read scores of trees: rows of their own.

A training node gets the score of trees that were not fitted on it, every
other node the mean over the folds. The log odds become one more feature, so
that its neighbour means and encodings come by themselves. Such a model says
how much the network adds to the trees, not how good the network is.
"""

import copy
import functools
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.baselines import mlp_encoded
from torch_energy_graph.bench.energy import et
from torch_energy_graph.bench.features import aggregated
from torch_energy_graph.bench.registry import (
    FitPredict,
    Prediction,
    register_model,
    with_defaults,
)
from torch_energy_graph.bench.split import Split

__all__ = ['mlp_stacked', 'out_of_fold', 'stacked']

FOLDS = 5
SMALLEST = 1e-4  # probabilities are kept this far from 0 and 1


def out_of_fold(data: Data, split: Split, seed: int) -> Tensor:
    """Return the log odds of an anomaly by trees, :math:`[N, 1]`.

    Args:
        data (Data): The graph.
        split (Split): Only its training nodes are read.
        seed (int): Seed of folds and trees.
    """
    x, y = aggregated(data).cpu().numpy(), data.y.cpu().numpy()
    train = np.flatnonzero(split.train.cpu().numpy())
    count = min(FOLDS, *np.bincount(y[train], minlength=2))
    if count < 2:
        raise ValueError(
            'stacking expects at least two training nodes of each class '
            f'(got {count}); use a protocol with more'
        )
    folds = StratifiedKFold(count, shuffle=True, random_state=seed)
    mean, held_out = np.zeros(len(x)), np.empty(len(train))
    for rest, fold in folds.split(train, y[train]):
        # unweighted: odds are what counts, and weighted bins take long
        trees = HistGradientBoostingClassifier(random_state=seed)
        trees.fit(x[train[rest]], y[train[rest]])
        score = trees.predict_proba(x)[:, 1]
        mean += score / count
        held_out[fold] = score[train[fold]]
    mean[train] = held_out
    odds = logit(mean.clip(SMALLEST, 1 - SMALLEST))
    return torch.from_numpy(odds).to(data.x).unsqueeze(-1)


def _on_tree_scores(model: FitPredict) -> FitPredict:
    """Return the model, with the same parameters, on one more feature."""

    @functools.wraps(model)
    def fit_predict(
        data: Data, split: Split, seed: int, **params: Any
    ) -> Prediction:
        data = copy.copy(data)
        score = out_of_fold(data, split, seed)
        data.x = torch.cat([data.x, score], dim=-1)
        # which nodes of another graph the trees were fitted on is unknown
        return replace(model(data, split, seed, **params), predict=None)

    return fit_predict


stacked = register_model('stacked')(
    _on_tree_scores(with_defaults(et, hops=2, encoding='piecewise'))
)
mlp_stacked = register_model('mlp_stacked')(_on_tree_scores(mlp_encoded))
