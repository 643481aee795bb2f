"""Baselines that belong into every table: linear, trees, MLP and GCN.

Each of the first three exists on :math:`x` and, as ``*_agg``, on
:math:`[x, Ax, A^2x]`. Trees on aggregated features are hard to beat.
"""

import copy
import functools
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.nn import GCN, MLP

from torch_energy_graph.bench.features import aggregated, standardised
from torch_energy_graph.bench.protocol import Split
from torch_energy_graph.bench.registry import (
    FitPredict,
    Prediction,
    register_model,
)
from torch_energy_graph.train import FitResult, fit, seed_everything

__all__ = [
    'gcn',
    'histgb',
    'histgb_agg',
    'logreg',
    'logreg_agg',
    'mlp',
    'mlp_agg',
    'prediction',
]


def prediction(result: FitResult, **info: Any) -> Prediction:
    """Return a fitted network's scores with what is recorded of the fit."""
    info |= {
        'best_epoch': result.best_epoch,
        'last_epoch': result.history[-1]['epoch'],
        'num_parameters': result.num_parameters,
    }
    return Prediction(result.scores, info)


@register_model('logreg')
def logreg(
    data: Data,
    split: Split,
    seed: int,
    *,
    C: float = 1.0,
    max_iter: int = 1000,
) -> Prediction:
    """Logistic regression on standardised features, classes balanced."""
    data = standardised(data, split)
    x, y = data.x.numpy(), data.y.numpy()
    train = split.train.numpy()
    model = LogisticRegression(
        C=C, max_iter=max_iter, class_weight='balanced', random_state=seed
    )
    model.fit(x[train], y[train])
    size = model.coef_.size + model.intercept_.size
    scores = model.predict_proba(x)[:, 1].astype(np.float64)
    return Prediction(scores, {'num_parameters': size})


@register_model('histgb')
def histgb(
    data: Data,
    split: Split,
    seed: int,
    *,
    learning_rate: float = 0.1,
    max_iter: int = 100,
    max_leaf_nodes: int = 31,
    max_bins: int = 255,
) -> Prediction:
    """Gradient-boosted trees, classes balanced.

    With weights, scikit-learn takes a second per ten features to find 255
    bins, however small the data; fewer bins take less.
    """
    x, y = data.x.numpy(), data.y.numpy()
    train = split.train.numpy()
    model = HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        max_iter=max_iter,
        max_leaf_nodes=max_leaf_nodes,
        max_bins=max_bins,
        class_weight='balanced',
        random_state=seed,
    )
    model.fit(x[train], y[train])
    return Prediction(model.predict_proba(x)[:, 1], {'trees': model.n_iter_})


@register_model('mlp')
def mlp(
    data: Data,
    split: Split,
    seed: int,
    *,
    hidden_channels: int = 64,
    num_layers: int = 2,
    dropout: float = 0.1,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    epochs: int = 200,
    patience: int = 50,
) -> Prediction:
    """Multi-layer perceptron on standardised features."""
    data = standardised(data, split)
    seed_everything(seed)
    model = MLP(
        in_channels=data.num_features,
        hidden_channels=hidden_channels,
        out_channels=1,
        num_layers=num_layers,
        dropout=dropout,
    )
    result = fit(
        model,
        data,
        split.train,
        split.val,
        epochs=epochs,
        lr=lr,
        weight_decay=weight_decay,
        patience=patience,
        predict=lambda model, data: model(data.x).squeeze(-1),
        seed=seed,
    )
    return prediction(result)


@register_model('gcn')
def gcn(
    data: Data,
    split: Split,
    seed: int,
    *,
    hidden_channels: int = 64,
    num_layers: int = 2,
    dropout: float = 0.1,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    epochs: int = 200,
    patience: int = 50,
) -> Prediction:
    """PyG's GCN on standardised features, normalised once."""
    data = standardised(data, split)
    seed_everything(seed)
    model = GCN(
        in_channels=data.num_features,
        hidden_channels=hidden_channels,
        num_layers=num_layers,
        out_channels=1,
        dropout=dropout,
        cached=True,
    )
    result = fit(
        model,
        data,
        split.train,
        split.val,
        epochs=epochs,
        lr=lr,
        weight_decay=weight_decay,
        patience=patience,
        predict=_full_graph,
        seed=seed,
    )
    return prediction(result)


def _full_graph(model: GCN, data: Data) -> Tensor:
    logits: Tensor = model(data.x, data.edge_index).squeeze(-1)
    return logits


def _on_aggregated(model: FitPredict) -> FitPredict:
    """Return the model, with the same parameters, on aggregated features."""

    @functools.wraps(model)
    def fit_predict(
        data: Data, split: Split, seed: int, **params: Any
    ) -> Prediction:
        data = copy.copy(data)
        data.x = aggregated(data)
        return model(data, split, seed, **params)

    return fit_predict


logreg_agg = register_model('logreg_agg')(_on_aggregated(logreg))
histgb_agg = register_model('histgb_agg')(_on_aggregated(histgb))
mlp_agg = register_model('mlp_agg')(_on_aggregated(mlp))
