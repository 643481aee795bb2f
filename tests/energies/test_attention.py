import pytest
import torch

from torch_energy_graph.energies import (
    attention_energy,
    attention_energy_grad,
    lift_relations,
    reduce_energy,
)
from torch_energy_graph.testing.graphs import random_graph


def draw(*shape, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=gen, dtype=torch.double)


def test_two_nodes_by_hand():
    g = torch.tensor([[2.0], [3.0]])
    one = torch.ones(1, 1, 1)
    edge_index = torch.tensor([[0], [1]])
    found = attention_energy(g, one, one, edge_index, beta=0.5)
    assert found.tolist() == [0.0, -6.0]  # -(1 / 0.5) * 0.5 * 2 * 3
    grad = attention_energy_grad(g, one, one, edge_index, beta=0.5)
    assert grad.flatten().tolist() == [-3.0, -2.0]


@pytest.mark.parametrize('num_edges', [0, 1, 60])
@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('beta', [None, 0.3, 'tensor'])
def test_gradient_is_exact_on_directed_multigraphs(num_edges, seed, beta):
    graph = random_graph(9, num_edges, seed, num_isolated=2)
    g = draw(9, 4, seed=seed).requires_grad_()
    weights = draw(2, 3, 4, seed=1), draw(2, 3, 4, seed=2)
    if beta == 'tensor':
        beta = torch.tensor([0.2, 1.9], dtype=torch.double)
    args = (*weights, graph.edge_index, beta, draw(num_edges, 2, seed=3))
    expected = torch.autograd.grad(attention_energy(g, *args).sum(), g)[0]
    found = attention_energy_grad(g, *args)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


def test_relations_are_a_sum_of_energies():
    graph = random_graph(6, 40, seed=5)
    edge_type = torch.randint(3, (40,))
    g, bias = draw(6, 4), draw(40, 2, seed=9)
    w_q, w_k = draw(3, 2, 5, 4, seed=1), draw(3, 2, 5, 4, seed=2)
    args = (w_q, w_k, graph.edge_index, 0.4, bias, edge_type)
    energy, grad = 0.0, 0.0
    for r in range(3):
        mask = edge_type == r
        one = (w_q[r], w_k[r], graph.edge_index[:, mask], 0.4, bias[mask])
        energy = energy + attention_energy(g, *one)
        grad = grad + attention_energy_grad(g, *one)
    found = attention_energy(g, *args)
    torch.testing.assert_close(found, energy, rtol=1e-12, atol=1e-12)
    found = attention_energy_grad(g, *args)
    torch.testing.assert_close(found, grad, rtol=1e-12, atol=1e-12)


def test_edge_weight_acts_like_parallel_edges():
    g, w_q, w_k = draw(3, 4), draw(1, 2, 4, seed=1), draw(1, 2, 4, seed=2)
    edges = torch.tensor([[0, 1, 1], [2, 2, 0]])
    bias = torch.tensor([3.0, 1.0, 2.0]).double().log().view(-1, 1)
    weighted = attention_energy(g, w_q, w_k, edges, bias=bias)
    repeated = edges.repeat_interleave(torch.tensor([3, 1, 2]), dim=1)
    parallel = attention_energy(g, w_q, w_k, repeated)
    torch.testing.assert_close(weighted, parallel, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ('edge_type', 'message'),
    [
        ([0, 1], 'one relation per edge'),
        ([0, 1, 2], r'in 0 to 1 \(got 2\)'),
        ([0, -1, 1], r'in 0 to 1 \(got -1\)'),
        ([0.0, 1.0, 1.0], 'integers'),
    ],
)
def test_wrong_relations(edge_type, message):
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(ValueError, match=message):
        lift_relations(edges, torch.tensor(edge_type), 2)


def test_reduce_energy_with_unsorted_batch():
    energy = torch.tensor([1.0, 2.0, 4.0, 8.0])
    batch = torch.tensor([1, 0, 1, 3])
    assert reduce_energy(energy).item() == 15.0
    assert reduce_energy(energy, reduction='node') is energy
    assert reduce_energy(energy, batch).tolist() == [2.0, 5.0, 0.0, 8.0]
    padded = reduce_energy(energy, batch, batch_size=5)
    assert padded.tolist() == [2.0, 5.0, 0.0, 8.0, 0.0]
    with pytest.raises(ValueError, match="'graph' or 'node'"):
        reduce_energy(energy, reduction='mean')
    with pytest.raises(ValueError, match='graph of every node'):
        reduce_energy(energy, batch[:2])


def test_sums_do_not_drift():
    energy = torch.full((2_000_000,), 0.1)
    exact = float(energy[0]) * 2_000_000
    batch = torch.zeros(2_000_000, dtype=torch.long)
    assert abs(reduce_energy(energy).item() / exact - 1) < 1e-6
    assert abs(reduce_energy(energy, batch).item() / exact - 1) < 1e-6
