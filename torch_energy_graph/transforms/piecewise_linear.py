r"""Piecewise-linear encoding: one column per quantile bin of a feature.

.. math::
    e_t(x) = \min\Big(1, \max\Big(0,
        \frac{x - b_{t-1}}{b_t - b_{t-1}}\Big)\Big), \qquad t = 1, \dots, T

with :math:`b_0 < \dots < b_T` the quantiles of the fitted nodes (`"On
Embeddings for Numerical Features in Tabular Deep Learning"
<https://arxiv.org/abs/2203.05556>`_). A linear layer on top is a piecewise
linear function of the feature with free slopes, which is what trees are good
at and plain networks are not. The outer bins, open in the paper, are clamped
here, so that a value never seen in training is at most an extreme one.
"""

import numpy as np

from torch_energy_graph.transforms.encoder import Array, FeatureEncoder

__all__ = ['PiecewiseLinearEncoding']


class PiecewiseLinearEncoding(FeatureEncoder):
    r"""Encodes every feature by how far each of its quantile bins is filled.

    Quantiles that coincide are merged: a binary feature has one bin, a
    constant one keeps a single column of zeros.

    Args:
        num_bins (int, optional): Upper bound T of the number of bins of a
            feature. (default: :obj:`16`)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> data = Data(x=torch.tensor([[0.0], [1.0], [5.0], [3.0], [9.0]]))
        >>> mask = torch.tensor([True, True, True, False, False])
        >>> PiecewiseLinearEncoding(2).fit(data, mask)(data).x.tolist()
        [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.5], [1.0, 1.0]]
    """

    def __init__(self, num_bins: int = 16) -> None:
        if num_bins < 1:
            raise ValueError(
                f"'PiecewiseLinearEncoding' expects num_bins >= 1 (got "
                f'{num_bins})'
            )
        self.num_bins = num_bins

    def learn(self, x: Array) -> None:
        """Keep the distinct quantiles of every feature."""
        levels = np.linspace(0.0, 1.0, self.num_bins + 1)
        edges = [np.unique(q) for q in np.quantile(x, levels, axis=0).T]
        # a constant feature has one edge, and a bin that is never filled
        self.edges_ = [
            e if len(e) > 1 else np.array([e[0], np.inf]) for e in edges
        ]

    def encode(self, x: Array) -> Array:
        """Return the bins of all features side by side."""
        columns = [
            ((x[:, [i]] - e[:-1]) / np.diff(e)).clip(0.0, 1.0)
            for i, e in enumerate(self.edges_)
        ]
        return np.concatenate(columns, axis=1)

    def __repr__(self) -> str:
        return f'{type(self).__name__}(num_bins={self.num_bins})'
