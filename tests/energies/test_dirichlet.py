import pytest
import torch

from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj, to_torch_csr_tensor

from torch_energy_graph.energies import dirichlet_energy, dirichlet_energy_grad
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.testing.graphs import random_graph, standard_graphs

GRAPHS = standard_graphs()


def draw(*shape, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=gen, dtype=torch.double)


def weights(num_edges, seed=0):
    return draw(num_edges, seed=seed).abs()


def both_ways(edge_index, weight):
    """Every edge with its reverse, of the same weight."""
    edges = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    return edges, torch.cat([weight, weight])


def propagate(x, edge_index, weight=None, self_loops=True):
    """What GCNConv does between its linear map and its bias."""
    conv = GCNConv(
        x.size(1), x.size(1), bias=False, add_self_loops=self_loops
    ).double()
    with torch.no_grad():
        conv.lin.weight.copy_(torch.eye(x.size(1)))
        return conv(x, edge_index, weight)


@pytest.mark.parametrize(
    ('self_loops', 'energy', 'grad'),
    [(False, 4.5, [-3.0, 3.0]), (True, 2.25, [-1.5, 1.5])],
)
def test_two_nodes_by_hand(self_loops, energy, grad):
    x, edges = torch.tensor([[0.0], [3.0]]), torch.tensor([[0, 1], [1, 0]])
    args = (x, edges, None, self_loops)
    # degrees 1 and 2: (3 - 0)^2 / 2 over the degree
    assert dirichlet_energy(*args).item() == pytest.approx(energy)
    shares = dirichlet_energy(*args, reduction='node')
    assert shares.tolist() == pytest.approx([energy / 2] * 2)
    found = dirichlet_energy_grad(*args)
    assert found.flatten().tolist() == pytest.approx(grad)


@pytest.mark.parametrize('name', GRAPHS)
@pytest.mark.parametrize('self_loops', [True, False])
@pytest.mark.parametrize('weighted', [True, False])
def test_gradient_is_exact(name, self_loops, weighted):
    graph = GRAPHS[name]
    x = draw(graph.num_nodes, 3).requires_grad_()
    weight = weights(graph.num_edges) if weighted else None
    args = (graph.edge_index, weight, self_loops)
    energy = dirichlet_energy(x, *args)
    assert energy.shape == ()
    assert energy >= 0
    (expected,) = torch.autograd.grad(energy, x)
    found = dirichlet_energy_grad(x, *args)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('seed', range(5))
@pytest.mark.parametrize('self_loops', [True, False])
def test_a_step_of_size_one_is_a_gcn_propagation(seed, self_loops):
    graph = random_graph(9, 25, seed, num_isolated=2)
    edges, weight = both_ways(graph.edge_index, weights(25, seed))
    x = draw(9, 4, seed=seed)
    step = x - dirichlet_energy_grad(x, edges, weight, self_loops)
    expected = propagate(x, edges, weight, self_loops)
    linked = torch.arange(9) < (9 if self_loops else 7)
    torch.testing.assert_close(
        step[linked], expected[linked], rtol=0, atol=1e-12
    )
    # a node of degree zero keeps its state, where the layer puts it to zero
    torch.testing.assert_close(step[~linked], x[~linked])
    assert not expected[~linked].any()


def test_it_is_the_quadratic_form_of_the_laplacian():
    graph = random_graph(8, 30, seed=3)
    edges, weight = both_ways(graph.edge_index, weights(30))
    x = draw(8, 3)
    index, value = gcn_norm(edges, weight, 8)
    norm = to_dense_adj(index, edge_attr=value, max_num_nodes=8)[0]
    expected = (x * (x - norm @ x)).sum() / 2
    torch.testing.assert_close(dirichlet_energy(x, edges, weight), expected)


def test_of_a_directed_graph_it_sees_the_symmetric_part():
    graph = random_graph(7, 20, seed=1, self_loops=False)
    weight, x = weights(20), draw(7, 3)
    halves = both_ways(graph.edge_index, weight / 2)
    args = (graph.edge_index, weight)
    torch.testing.assert_close(
        dirichlet_energy(x, *args), dirichlet_energy(x, *halves)
    )
    step = x - dirichlet_energy_grad(x, *args)
    torch.testing.assert_close(step, propagate(x, *halves))
    # over in-edges alone, the Jacobian is not symmetric: no energy has it
    jacobian = propagate(torch.eye(7).double(), *args)
    assert (jacobian - jacobian.mT).abs().max() > 0.1


@pytest.mark.parametrize('seed', range(4))
def test_steps_up_to_one_never_raise_it_and_long_ones_do(seed):
    graph = random_graph(10, 25, seed)
    edges, weight = both_ways(graph.edge_index, weights(25, seed))

    def energy_after(x, tau):
        x = x - tau * dirichlet_energy_grad(x, edges, weight)
        return dirichlet_energy(x, edges, weight).item()

    for tau in (0.1, 0.5, 1.0):
        x = draw(10, 4, seed=seed)
        for _ in range(10):
            before = dirichlet_energy(x, edges, weight).item()
            assert energy_after(x, tau) <= before + 1e-12
            x = x - tau * dirichlet_energy_grad(x, edges, weight)
    laplacian = dirichlet_energy_grad(torch.eye(10).double(), edges, weight)
    value, vector = torch.linalg.eigh(laplacian)
    assert value[0] > -1e-12
    assert value[-1] <= 2
    x = vector[:, -1:]
    before = dirichlet_energy(x, edges, weight).item()
    assert energy_after(x, 0.99 * 2 / value[-1]) < before
    assert energy_after(x, 1.01 * 2 / value[-1]) > before


def test_graphs_of_a_batch_and_shares_of_nodes():
    graph = GRAPHS['two parts']
    x, batch = draw(7, 3), graph.batch * 2  # graph 1 is empty
    total = dirichlet_energy(x, graph.edge_index)
    shares = dirichlet_energy(x, graph.edge_index, reduction='node')
    torch.testing.assert_close(shares.sum(), total)
    found = dirichlet_energy(x, graph.edge_index, batch=batch, batch_size=4)
    expected = [shares[batch == b].sum() for b in range(4)]
    torch.testing.assert_close(found, torch.stack(expected))
    assert found[1] == 0


def test_constants_in_the_norm_have_no_energy():
    edges, weight = both_ways(
        random_graph(6, 14, seed=2, self_loops=False).edge_index, weights(14)
    )
    degree = 1 + torch.zeros(6).double().index_add(0, edges[1], weight)
    x = degree.sqrt().unsqueeze(-1) * draw(1, 3)
    assert dirichlet_energy(x, edges, weight) < 1e-24
    assert dirichlet_energy_grad(x, edges, weight).abs().max() < 1e-12


def test_edge_forms_agree():
    graph = random_graph(8, 20, seed=4, multi_edges=False)
    x, weight = draw(8, 3), weights(20)
    expected = dirichlet_energy(x, graph.edge_index, weight)
    adj_t = to_torch_csr_tensor(graph.edge_index, weight, size=(8, 8)).t()
    torch.testing.assert_close(dirichlet_energy(x, adj_t), expected)
    cache = GraphCache.from_edge_index(graph.edge_index, 8)
    torch.testing.assert_close(dirichlet_energy(x, cache, weight), expected)


@pytest.mark.parametrize('dtype', [torch.half, torch.bfloat16])
def test_half_types_are_summed_in_float32(dtype):
    graph = random_graph(20, 60, seed=1)
    x = draw(20, 4).to(dtype)
    energy = dirichlet_energy(x, graph.edge_index)
    assert energy.dtype == torch.float32
    expected = dirichlet_energy(x.double(), graph.edge_index)
    torch.testing.assert_close(energy.double(), expected, rtol=1e-5, atol=0)
    assert dirichlet_energy_grad(x, graph.edge_index).dtype == dtype


@pytest.mark.parametrize(
    ('edges', 'weight', 'error', 'message'),
    [
        ([[0, 3], [1, 0]], None, IndexError, r'names node 3, .*0 to 2'),
        ([[0, -1], [1, 0]], None, IndexError, r'names node -1'),
        ([[0], [1]], [1.0, 2.0], ValueError, r'one weight per edge, \[1\]'),
        ([[0], [1]], [-1.0], ValueError, r'edge 0 has -1.0'),
        ([[0], [1]], [float('nan')], ValueError, r'edge 0 has nan'),
        ([[0, 1]], None, ValueError, r'shape \[2, E\]'),
    ],
)
def test_wrong_input(edges, weight, error, message):
    weight = None if weight is None else torch.tensor(weight)
    for function in (dirichlet_energy, dirichlet_energy_grad):
        with pytest.raises(error, match=message):
            function(torch.ones(3, 2), torch.tensor(edges), weight)
