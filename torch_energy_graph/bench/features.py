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

__all__ = ['Encoding', 'Inputs', 'Labels', 'aggregated', 'neighbor_labels']

Encoding: TypeAlias = Literal['raw', 'standard', 'normal', 'piecewise']
Labels: TypeAlias = Literal['features', 'beside']


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


def neighbor_labels(data: Data, train: Tensor) -> Tensor:
    r"""Return what the labels of its in-neighbours say about each node.

    A node's own label is not counted, so that a training node sees what any
    other node would see. Neighbours of the node could read it, though: these
    features must not be passed along edges.

    Args:
        data (Data): The graph; labels outside of ``train`` are not read.
        train (Tensor): Nodes with known labels, bool :math:`[N]`.

    Returns:
        Tensor: Log odds of an anomaly among labelled in-neighbours, with one
        more neighbour of the average kind, and the logarithm of 1 plus their
        number, :math:`[N, 2]`.
    """
    src, dst = data.edge_index[:, data.edge_index[0] != data.edge_index[1]]
    y = (data.y == 1) & train
    known = torch.stack([y, train], dim=-1).to(data.x.dtype)  # [N, 2]
    prior = known[:, 0].sum() / known[:, 1].sum().clamp(min=1)
    count = torch.zeros_like(known).index_add_(0, dst, known[src])
    share = (count[:, 0] + prior) / (count[:, 1] + 1)
    return torch.stack([share.logit(eps=1e-4), count[:, 1].log1p()], dim=-1)


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
        labels (str, optional): Whether :func:`neighbor_labels` become
            'features' or stand 'beside' them as ``known``; only the graph of
            the fit has them. (default: :obj:`None`)
    """

    def __init__(
        self,
        hops: int = 0,
        encoding: Encoding = 'standard',
        bins: int = 16,
        labels: Labels | None = None,
    ) -> None:
        self.hops = hops
        self.labels = labels
        self.known: Tensor | None = None
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
        if self.labels:
            known = neighbor_labels(data, split.train)
            seen = known[split.train]
            scale = seen.std(0, correction=0).clamp(min=1e-6)
            self.known = (known - seen.mean(0)) / scale
        data = self._aggregate(data)
        for encoder in self.encoders:
            data = encoder.fit(data, split.train)(data)
        return self

    def __call__(self, data: Data) -> Data:
        """Return the graph with encoded features."""
        data = self._aggregate(data)
        for encoder in self.encoders:
            data = encoder(data)
        if self.known is not None:
            data = self._with_labels(data, self.known)
        return data

    def _with_labels(self, data: Data, known: Tensor) -> Data:
        data = copy.copy(data)
        if self.labels == 'beside':
            data.known = known
        else:
            data.x = torch.cat([data.x, known], dim=-1)
        return data

    def _aggregate(self, data: Data) -> Data:
        data = copy.copy(data)
        data.x = aggregated(data, self.hops) if self.hops else data.x
        return data
