"""Node features as the models of the benchmark take them."""

import copy
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv

from torch_energy_graph.bench.split import Split
from torch_energy_graph.transforms import (
    FeatureEncoder,
    PiecewiseLinearEncoding,
    QuantileNormalize,
    Standardize,
)

__all__ = ['Encoding', 'Inputs', 'aggregated']

Encoding: TypeAlias = Literal['raw', 'standard', 'normal', 'piecewise']


def aggregated(data: Data, hops: int = 2) -> Tensor:
    r"""Return :math:`[x, Ax, \dots, A^k x]`, :math:`A` the in-edges' mean.

    Args:
        data (Data): The graph.
        hops (int, optional): :math:`k`. (default: :obj:`2`)

    Returns:
        Tensor: :math:`[N, (k + 1) F]`.
    """
    mean = SimpleConv(aggr='mean')
    columns = [data.x]
    for _ in range(hops):
        columns.append(mean(columns[-1], data.edge_index))
    return torch.cat(columns, dim=-1)


class Inputs:
    r"""From a graph to what a model reads: neighbour means, then an encoding.

    It is fitted on training nodes and can be applied to other graphs.

    Args:
        hops (int, optional): Number of neighbour means beside x.
            (default: :obj:`0`)
        encoding (str, optional): 'raw', 'standard' (mean 0, variance 1),
            'normal' (ranks as a normal variable) or 'piecewise' (quantile
            bins, then 'standard': what all nodes share says nothing, but
            would dominate the norm of a state). (default: :obj:`'standard'`)
        bins (int, optional): Bins of 'piecewise'. (default: :obj:`16`)
    """

    def __init__(
        self, hops: int = 0, encoding: Encoding = 'standard', bins: int = 16
    ) -> None:
        self.hops = hops
        self.encoders: list[FeatureEncoder] = {
            'raw': lambda: [],
            'standard': lambda: [Standardize()],
            'normal': lambda: [QuantileNormalize()],
            'piecewise': lambda: [
                PiecewiseLinearEncoding(bins),
                Standardize(),
            ],
        }[encoding]()

    def fit(self, data: Data, split: Split) -> 'Inputs':
        """Learn from the training nodes of a graph."""
        data = self._aggregate(data)
        for encoder in self.encoders:
            data = encoder.fit(data, split.train)(data)
        return self

    def __call__(self, data: Data) -> Data:
        """Return the graph with encoded features."""
        data = self._aggregate(data)
        for encoder in self.encoders:
            data = encoder(data)
        return data

    def _aggregate(self, data: Data) -> Data:
        data = copy.copy(data)
        data.x = aggregated(data, self.hops) if self.hops else data.x
        return data
