import pytest
import torch
from scipy.special import beta

from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from torch_energy_graph.bench.adjacency import symmetric_adjacency
from torch_energy_graph.bench.bwgnn import BWGNN, beta_coefficients


@pytest.fixture
def graph():
    gen = torch.Generator().manual_seed(0)
    ends = torch.randint(12, (2, 30), generator=gen)
    ends = torch.cat([ends, ends.flip(0)], dim=1)  # a symmetric multigraph
    x = torch.randn(13, 4, generator=gen).double()  # node 12 is isolated
    return Data(x=x, edge_index=ends)


def laplacian(data):
    dense = to_dense_adj(data.edge_index, max_num_nodes=13)[0].double()
    scale = dense.sum(1).pow(-0.5)
    scale[scale.isinf()] = 0
    return torch.eye(13).double() - scale[:, None] * dense * scale


@pytest.mark.parametrize('order', [1, 2, 3, 4])
def test_the_filters_sum_to_one(graph, order):
    model = BWGNN(4, 8, order).double()
    waves = model.wavelets(graph.x, symmetric_adjacency(graph, False))
    assert waves.shape == (13, order + 1, 4)
    torch.testing.assert_close(waves.sum(1), graph.x, atol=1e-12, rtol=0)


@pytest.mark.parametrize('order', [1, 2, 3])
def test_the_filters_are_beta_wavelets(graph, order):
    half = laplacian(graph) / 2
    other = torch.eye(13).double() - half
    model = BWGNN(4, 8, order).double()
    waves = model.wavelets(graph.x, symmetric_adjacency(graph, False))
    for p in range(order + 1):
        wavelet = torch.linalg.matrix_power(half, p)
        wavelet = wavelet @ torch.linalg.matrix_power(other, order - p)
        wavelet = wavelet / (2 * beta(p + 1, order - p + 1))
        expected = wavelet @ graph.x * 2 / (order + 1)
        torch.testing.assert_close(waves[:, p], expected, atol=1e-10, rtol=0)


def test_coefficients():
    assert beta_coefficients(2).tolist() == [[1, -2, 1], [0, 2, -2], [0, 0, 1]]
    with pytest.raises(ValueError, match='order >= 1'):
        beta_coefficients(0)
