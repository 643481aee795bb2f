"""Node features as the models of the benchmark take them."""

import copy
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.split import Split
from torch_energy_graph.detect.inputs import Encoding, NodeInputs, aggregated

__all__ = ['Encoding', 'Inputs', 'Labels', 'aggregated', 'neighbor_labels']

Labels: TypeAlias = Literal['features', 'beside']


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


class Inputs(NodeInputs):
    r"""What a model reads of a graph; it can also read labels.

    Args:
        hops (int, optional): See :class:`NodeInputs`. (default: :obj:`0`)
        encoding (str, optional): See there. (default: :obj:`'standard'`)
        bins (int, optional): See there. (default: :obj:`16`)
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
        super().__init__(hops, encoding, bins)
        self.labels = labels
        self.known: Tensor | None = None

    def fit(self, data: Data, split: Split) -> 'Inputs':
        """Learn from the training nodes of a graph."""
        if self.labels:
            known = neighbor_labels(data, split.train)
            seen = known[split.train]
            scale = seen.std(0, correction=0).clamp(min=1e-6)
            self.known = (known - seen.mean(0)) / scale
        return self.learn(data, split.train)

    def __call__(self, data: Data) -> Data:
        """Return the graph with encoded features."""
        data = super().__call__(data)
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
