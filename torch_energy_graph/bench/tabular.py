"""Linear and tree baselines on node features.

Each exists on :math:`x` and, as ``*_agg``, on :math:`[x, Ax, A^2x]`. Trees on
aggregated features are hard to beat.
"""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression

from torch_geometric.data import Data

from torch_energy_graph.bench.features import Inputs
from torch_energy_graph.bench.registry import (
    Prediction,
    UnavailableError,
    register_model,
    with_defaults,
)
from torch_energy_graph.bench.split import Split

__all__ = [
    'TREES',
    'forest',
    'forest_agg',
    'histgb',
    'histgb_agg',
    'logreg',
    'logreg_agg',
    'xgb',
    'xgb_agg',
    'xgb_labels',
]

TREES = (
    'histgb',
    'histgb_agg',
    'forest',
    'forest_agg',
    'xgb',
    'xgb_agg',
    'xgb_labels',
)


def _fitted(
    classifier: Any, inputs: Inputs, data: Data, split: Split
) -> Prediction:
    """Fit a classifier on the training nodes and score all."""
    inputs.fit(data, split)
    train = split.train.numpy()
    x, y = inputs(data).x.numpy(), data.y.numpy()
    classifier.fit(x[train], y[train])

    def predict(graph: Data) -> NDArray[np.float64]:
        scores = classifier.predict_proba(inputs(graph).x.numpy())[:, 1]
        return np.asarray(scores, dtype=np.float64)

    later = None if inputs.labels else predict
    return Prediction(predict(data), {}, later)


@register_model('logreg')
def logreg(
    data: Data,
    split: Split,
    seed: int,
    *,
    C: float = 1.0,
    max_iter: int = 1000,
    hops: int = 0,
) -> Prediction:
    """Logistic regression on standardised features, classes balanced."""
    model = LogisticRegression(
        C=C, max_iter=max_iter, class_weight='balanced', random_state=seed
    )
    result = _fitted(model, Inputs(hops), data, split)
    result.info['num_parameters'] = model.coef_.size + model.intercept_.size
    return result


@register_model('histgb')
def histgb(
    data: Data,
    split: Split,
    seed: int,
    *,
    learning_rate: float = 0.1,
    max_iter: int = 100,
    max_leaf_nodes: int = 31,
    l2_regularization: float = 0.0,
    max_bins: int = 255,
    hops: int = 0,
) -> Prediction:
    """Gradient-boosted trees, classes balanced.

    With weights, scikit-learn takes a second per ten features to find 255
    bins, however small the data; fewer bins take less.
    """
    model = HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        max_iter=max_iter,
        max_leaf_nodes=max_leaf_nodes,
        l2_regularization=l2_regularization,
        max_bins=max_bins,
        class_weight='balanced',
        random_state=seed,
    )
    result = _fitted(model, Inputs(hops, 'raw'), data, split)
    result.info['trees'] = model.n_iter_
    return result


@register_model('forest')
def forest(
    data: Data,
    split: Split,
    seed: int,
    *,
    num_trees: int = 300,
    min_samples_leaf: int = 2,
    max_features: float | None = None,
    hops: int = 0,
) -> Prediction:
    """Random forest, classes balanced.

    Without ``max_features``, a tree sees the square root of all features.
    """
    model = RandomForestClassifier(
        num_trees,
        min_samples_leaf=min_samples_leaf,
        max_features='sqrt' if max_features is None else max_features,
        class_weight='balanced_subsample',
        random_state=seed,
    )
    result = _fitted(model, Inputs(hops, 'raw'), data, split)
    result.info['trees'] = num_trees
    return result


@register_model('xgb')
def xgb(
    data: Data,
    split: Split,
    seed: int,
    *,
    learning_rate: float = 0.1,
    max_iter: int = 200,
    max_depth: int = 6,
    min_child_weight: float = 1.0,
    subsample: float = 1.0,
    colsample: float = 1.0,
    reg_lambda: float = 1.0,
    hops: int = 0,
    labels: bool = False,
) -> Prediction:
    """XGBoost, anomalies weighted by benign over anomalous nodes.

    With ``labels``, it reads the known labels of a node's neighbours.
    """
    try:
        xgboost: Any = import_module('xgboost')
    except ImportError as error:
        raise UnavailableError(
            f"'xgb' needs xgboost ({error}); pip install xgboost-cpu"
        ) from error
    y = data.y[split.train]
    model = xgboost.XGBClassifier(
        learning_rate=learning_rate,
        n_estimators=max_iter,
        max_depth=max_depth,
        min_child_weight=min_child_weight,
        subsample=subsample,
        colsample_bytree=colsample,
        reg_lambda=reg_lambda,
        scale_pos_weight=float((y == 0).sum() / (y == 1).sum()),
        tree_method='hist',
        random_state=seed,
    )
    inputs = Inputs(hops, 'raw', labels='features' if labels else None)
    result = _fitted(model, inputs, data, split)
    result.info.update(trees=max_iter, xgboost=xgboost.__version__)
    return result


logreg_agg = register_model('logreg_agg')(with_defaults(logreg, hops=2))
histgb_agg = register_model('histgb_agg')(with_defaults(histgb, hops=2))
forest_agg = register_model('forest_agg')(with_defaults(forest, hops=2))
xgb_agg = register_model('xgb_agg')(with_defaults(xgb, hops=2))
xgb_labels = register_model('xgb_labels')(
    with_defaults(xgb, hops=2, labels=True)
)
