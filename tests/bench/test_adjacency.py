import torch

from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE

from torch_energy_graph.bench.adjacency import (
    mean_adjacency,
    symmetric_adjacency,
)


def graph():
    """A directed multigraph; node 29 has no edge."""
    gen = torch.Generator().manual_seed(0)
    edge_index = torch.randint(29, (2, 200), generator=gen)
    x = torch.randn(30, 5, generator=gen).double()
    return Data(x=x, edge_index=edge_index)


def agree(first, second, data, adjacency):
    second.load_state_dict(first.state_dict())
    expected = first(data.x, data.edge_index)
    torch.testing.assert_close(
        second(data.x, adjacency), expected, atol=1e-12, rtol=0
    )


def test_pygs_gcn_is_the_same_on_the_matrix():
    data = graph()
    adjacency = symmetric_adjacency(data)
    assert adjacency.layout == torch.sparse_csr
    first = GCN(5, 8, 2, 1).double()
    agree(first, GCN(5, 8, 2, 1, normalize=False).double(), data, adjacency)


def test_pygs_sage_is_the_same_on_the_matrix():
    data = graph()
    first = GraphSAGE(5, 8, 2, 1).double()
    second = GraphSAGE(5, 8, 2, 1, aggr='sum').double()
    agree(first, second, data, mean_adjacency(data))
