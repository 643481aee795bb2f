from functools import partial

import pytest
import torch

from torch_energy_graph.ops import GraphCache, spmm
from torch_energy_graph.testing import random_graph, standard_graphs

# compiled layers are checked elsewhere: that check is slow
opcheck = partial(
    torch.library.opcheck,
    test_utils=[
        'test_schema',
        'test_autograd_registration',
        'test_faketensor',
    ],
)


def dense(edge_index, weight, num_nodes):
    out = torch.zeros(num_nodes, num_nodes, dtype=torch.double)
    return out.index_put((edge_index[1], edge_index[0]), weight, True)


@pytest.mark.parametrize('name', standard_graphs())
def test_equals_the_dense_product(name):
    graph = standard_graphs()[name]
    edges, num_nodes = graph.edge_index, graph.num_nodes
    cache = GraphCache.from_edge_index(edges, num_nodes)
    x = torch.randn(num_nodes, 3, dtype=torch.double)
    ones = torch.ones(edges.size(1), dtype=torch.double)
    weight = torch.rand_like(ones)
    for given, values in ((None, ones), (weight, weight)):
        expected = dense(edges, values, num_nodes) @ x
        torch.testing.assert_close(spmm(x, cache, given), expected)


def test_derivatives():
    edges = random_graph(5, 12, seed=1, num_isolated=1).edge_index
    cache = GraphCache.from_edge_index(edges, 5)
    x = torch.randn(5, 2, dtype=torch.double, requires_grad=True)
    weight = torch.rand(12, dtype=torch.double, requires_grad=True)

    def form(x, weight):
        return spmm(x, cache, weight)

    torch.autograd.gradcheck(form, (x, weight))
    torch.autograd.gradgradcheck(form, (x, weight))
    torch.autograd.gradcheck(lambda x: spmm(x, cache), (x,))


def test_bipartite():
    edges = torch.tensor([[0, 3, 3], [1, 0, 1]])
    cache = GraphCache.from_edge_index(edges, (4, 2))
    x = torch.arange(8.0).view(4, 2).requires_grad_()
    out = spmm(x, cache)
    assert out.tolist() == [[6.0, 7.0], [6.0, 8.0]]
    (grad,) = torch.autograd.grad(out[:, 0].sum(), x)
    assert grad[:, 0].tolist() == [1.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_half_types_are_summed_in_float32(dtype):
    leaves = torch.arange(1, 5000)
    star = torch.stack([leaves, torch.zeros_like(leaves)])
    cache = GraphCache.from_edge_index(star, 5000)
    out = spmm(torch.full((5000, 1), 0.5, dtype=dtype), cache)
    assert out.dtype == dtype
    # a running sum in bfloat16 would stop at 256 * 0.5
    assert abs(out[0].item() - 2499.5) <= torch.finfo(dtype).eps * 2500


def test_operators_are_registered_right():
    edges = random_graph(5, 12).edge_index
    cache = GraphCache.from_edge_index(edges, 5)
    graph = [
        *(cache.rowptr, cache.col, cache.edge_row),
        *(cache.colptr, cache.row, cache.edge_col),
    ]
    x, y = (torch.randn(5, 2, requires_grad=True) for _ in range(2))
    weight = torch.rand(12, requires_grad=True)
    ops = torch.ops.torch_energy_graph
    opcheck(ops.spmm, (x, None, graph))
    opcheck(ops.spmm, (x, weight, graph))
    opcheck(ops.sddmm, (x, y, graph))


def test_wrong_shapes():
    cache = GraphCache.from_edge_index(torch.tensor([[0], [1]]), 2)
    with pytest.raises(ValueError, match='one row per source'):
        spmm(torch.ones(3, 1), cache)
    with pytest.raises(ValueError, match='one weight per edge'):
        spmm(torch.ones(2, 1), cache, torch.ones(2))
