"""From a graph to what a network reads: neighbour means, then an encoding."""

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv

from torch_energy_graph.data.tables.scaling import (
    Encoding,
    encoders_from,
    encoders_state,
)
from torch_energy_graph.transforms import (
    FeatureEncoder,
    PiecewiseLinearEncoding,
    QuantileNormalize,
    Standardize,
)

__all__ = ['Encoding', 'NodeInputs', 'aggregated']

Self = TypeVar('Self', bound='NodeInputs')


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


class NodeInputs:
    r"""Neighbour means beside the features, then an encoding of all of them.

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

    def learn(self: Self, data: Data, train: Tensor) -> Self:
        """Learn from the training nodes of a graph, bool :math:`[N]`."""
        data = self._aggregate(data)
        for encoder in self.encoders:
            data = encoder.fit(data, train)(data)
        return self

    def __call__(self, data: Data) -> Data:
        """Return the graph with encoded features."""
        data = self._aggregate(data)
        for encoder in self.encoders:
            data = encoder(data)
        return data

    def origin(self, num_features: int) -> Tensor:
        r"""Feature of each encoded column, :math:`[F']`.

        Args:
            num_features (int): Number of features :math:`F` of the graph.
        """
        column = torch.arange((self.hops + 1) * num_features)
        for encoder in self.encoders:
            if isinstance(encoder, PiecewiseLinearEncoding):
                widths = [len(edges) - 1 for edges in encoder.edges_]
                column = column.repeat_interleave(torch.tensor(widths))
        return column % num_features

    def state(self) -> list[dict[str, Any]]:
        """What the encoders have learned, ready for JSON."""
        states = encoders_state(self.encoders)
        for state in states:
            if 'edges' in state:  # JSON has no infinity
                state['edges'] = [
                    [e if np.isfinite(e) else None for e in edges]
                    for edges in state['edges']
                ]
        return states

    def restore(
        self: Self, states: list[Mapping[str, Any]], num_features: int
    ) -> Self:
        """Take over what :meth:`state` gave."""
        width = (self.hops + 1) * num_features
        known = [
            state
            if 'edges' not in state
            else {
                **state,
                'edges': [
                    [np.inf if e is None else e for e in edges]
                    for edges in state['edges']
                ],
            }
            for state in states
        ]
        self.encoders = encoders_from(known, width)
        for encoder in self.encoders:
            encoder.num_features_ = width
            width = encoder.encode(np.zeros((1, width))).shape[1]
        return self

    def _aggregate(self, data: Data) -> Data:
        data = copy.copy(data)
        data.x = aggregated(data, self.hops) if self.hops else data.x
        return data
