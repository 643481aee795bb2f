"""Scalings of single features."""

import numpy as np
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from torch_energy_graph.transforms.encoder import Array, FeatureEncoder

__all__ = ['QuantileNormalize', 'Standardize']


class Standardize(FeatureEncoder):
    """Mean zero and variance one of every feature on the fitted nodes.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> data = Data(x=torch.tensor([[1.0], [3.0], [7.0]]))
        >>> mask = torch.tensor([True, True, False])
        >>> Standardize().fit(data, mask)(data).x.flatten().tolist()
        [-1.0, 1.0, 5.0]
    """

    def learn(self, x: Array) -> None:
        """Keep mean and deviation."""
        self.scaler_ = StandardScaler().fit(x)

    def encode(self, x: Array) -> Array:
        """Shift and scale."""
        scaled: Array = self.scaler_.transform(x)
        return scaled


class QuantileNormalize(FeatureEncoder):
    """Rank of every feature among the fitted nodes, as a normal variable.

    Outliers and heavy tails lose their weight; values beyond the fitted ones
    get those of the extremes (about 5.2 standard deviations).

    Args:
        num_quantiles (int, optional): Upper bound of the number of ranks
            kept. (default: :obj:`1000`)
    """

    def __init__(self, num_quantiles: int = 1000) -> None:
        if num_quantiles < 2:
            raise ValueError(
                f"'QuantileNormalize' expects num_quantiles >= 2 (got "
                f'{num_quantiles})'
            )
        self.num_quantiles = num_quantiles

    def learn(self, x: Array) -> None:
        """Keep the quantiles."""
        self.ranks_ = QuantileTransformer(
            n_quantiles=min(self.num_quantiles, len(x)),
            output_distribution='normal',
            subsample=None,  # all nodes: no random draw
        ).fit(x)

    def encode(self, x: Array) -> Array:
        """Rank, then map to the normal distribution."""
        return np.asarray(self.ranks_.transform(x), dtype=np.float64)
