"""Sparse adjacency matrices, on which message passing is several times faster.

Rows are targets, columns sources. Parallel edges add up.
"""

import warnings

from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import degree, to_torch_csc_tensor

__all__ = ['mean_adjacency', 'symmetric_adjacency']


def mean_adjacency(data: Data) -> Tensor:
    """Return :math:`D^{-1} A`, the mean over in-edges, as CSR."""
    dst = data.edge_index[1]
    count = degree(dst, data.num_nodes, dtype=data.x.dtype)
    return _csr(data.edge_index, 1 / count[dst], data)


def symmetric_adjacency(data: Data, add_self_loops: bool = True) -> Tensor:
    """Return PyG's :math:`D^{-1/2} A D^{-1/2}` of ``GCNConv`` as CSR."""
    edge_index, weight = gcn_norm(
        data.edge_index,
        num_nodes=data.num_nodes,
        add_self_loops=add_self_loops,
        dtype=data.x.dtype,
    )
    return _csr(edge_index, weight, data)


def _csr(edge_index: Tensor, weight: Tensor, data: Data) -> Tensor:
    with warnings.catch_warnings():  # sparse layouts announce to be in beta
        warnings.simplefilter('ignore', UserWarning)
        transposed = to_torch_csc_tensor(
            edge_index, weight, size=data.num_nodes
        )
        return transposed.t()
