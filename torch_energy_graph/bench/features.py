"""Node features as the models of the benchmark take them."""

import copy

import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv

from torch_energy_graph.bench.protocol import Split

__all__ = ['aggregated', 'standardised']


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


def standardised(data: Data, split: Split) -> Data:
    """Return the graph with features scaled by its training nodes."""
    scaler = StandardScaler().fit(data.x[split.train].cpu().numpy())
    scaled = copy.copy(data)
    x = torch.from_numpy(scaler.transform(data.x.cpu().numpy()))
    scaled.x = x.to(data.x)
    return scaled
