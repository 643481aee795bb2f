import pytest
import torch

from torch_energy_graph.bench.sparse_features import (
    SparseFeatures,
    network_input,
)


def sparse_matrix(density):
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(50, 40, generator=gen).double()
    return x * (torch.rand(50, 40, generator=gen) < density)


@pytest.mark.parametrize('bias', [True, False])
def test_a_linear_map_and_its_gradients_are_the_dense_ones(bias):
    x = sparse_matrix(0.1)
    lin = torch.nn.Linear(40, 7, bias=bias).double()
    cotangent = torch.randn(50, 7).double()
    found = {}
    for name, matrix in (('dense', x), ('sparse', SparseFeatures(x))):
        out = lin(matrix)
        grads = torch.autograd.grad((out * cotangent).sum(), lin.parameters())
        found[name] = (out, *grads)
    torch.testing.assert_close(found['sparse'], found['dense'])


def test_only_very_sparse_features_are_multiplied_sparse():
    dense = sparse_matrix(0.5)
    assert network_input(dense) is dense
    assert isinstance(network_input(sparse_matrix(0.01)), SparseFeatures)


def test_nothing_else_is_defined():
    with pytest.raises(TypeError):
        torch.relu(SparseFeatures(sparse_matrix(0.01)))
