import warnings

import pytest
import torch

from torch_geometric import EdgeIndex
from torch_geometric.utils import to_dense_adj, to_torch_csc_tensor

from torch_energy_graph.ood.propagation import EnergyPropagation
from torch_energy_graph.ops import GraphCache


def random_graph(num_nodes, num_edges, seed):
    gen = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=gen)
    return edge_index, torch.randn(num_nodes, generator=gen).double()


def brute_force(energy, edge_index, num_layers, alpha):
    """Formula (1) with a dense matrix, node by node."""
    n = energy.numel()
    adj = to_dense_adj(edge_index, max_num_nodes=n)[0].double()  # [src, dst]
    for _ in range(num_layers):
        out = energy.clone()
        for i in range(n):
            if adj[:, i].sum() > 0:
                mean = (adj[:, i] * energy).sum() / adj[:, i].sum()
                out[i] = alpha * energy[i] + (1 - alpha) * mean
        energy = out
    return energy


def test_a_path_by_hand():
    path = torch.tensor([[0, 1], [1, 2]])
    energy = torch.tensor([4.0, 0.0, 2.0])
    # node 0 has no in-edge; step 1: [4, 2, 1], step 2: [4, 3, 1.5]
    assert EnergyPropagation(1)(energy, path).tolist() == [4.0, 2.0, 1.0]
    assert EnergyPropagation()(energy, path).tolist() == [4.0, 3.0, 1.5]


def test_isolated_nodes_as_in_the_released_code():
    path = torch.tensor([[0, 1], [1, 2]])
    energy = torch.tensor([-4.0, 0.0, -2.0])
    out = EnergyPropagation(2, isolated='zero')(energy, path)
    # step 1: [-2, -2, -1], step 2: [-1, -2, -1.5]
    assert out.tolist() == [-1.0, -2.0, -1.5]
    with pytest.raises(ValueError, match="isolated 'keep' or 'zero'"):
        EnergyPropagation(isolated='mean')


@pytest.mark.parametrize('num_edges', [0, 1, 30])
@pytest.mark.parametrize('alpha', [0.0, 0.3, 1.0])
@pytest.mark.parametrize('num_layers', [0, 1, 3])
def test_brute_force_on_directed_multigraphs(num_edges, alpha, num_layers):
    edge_index, energy = random_graph(9, num_edges, seed=num_edges)
    out = EnergyPropagation(num_layers, alpha)(energy, edge_index)
    expected = brute_force(energy, edge_index, num_layers, alpha)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def test_a_constant_stays_and_signs_do_not_matter():
    edge_index, energy = random_graph(12, 40, seed=1)
    module = EnergyPropagation(3, 0.2)
    flat = torch.full((12,), -3.0).double()
    torch.testing.assert_close(module(flat, edge_index), flat)
    torch.testing.assert_close(
        module(-energy, edge_index), -module(energy, edge_index)
    )


def test_every_form_of_edges():
    edge_index, energy = random_graph(8, 30, seed=2)
    # sparse forms join parallel edges
    edge_index = edge_index.unique(dim=1).contiguous()
    module = EnergyPropagation()
    expected = module(energy, edge_index)
    forms = [
        EdgeIndex(edge_index, sparse_size=(8, 8)),
        GraphCache.from_edge_index(edge_index, 8),
        to_torch_csc_tensor(edge_index, size=(8, 8)).t(),
    ]
    for form in forms:
        torch.testing.assert_close(module(energy, form), expected)


def test_gradient():
    edge_index, energy = random_graph(6, 12, seed=3)
    module = EnergyPropagation(2, 0.4)
    assert torch.autograd.gradcheck(
        lambda e: module(e, edge_index), energy.requires_grad_()
    )


def test_warns_at_low_homophily_only():
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    energy, module = torch.randn(4), EnergyPropagation()
    with pytest.warns(UserWarning, match='only 0% of the edges'):
        module(energy, ring, torch.tensor([0, 1, 0, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        module(energy, ring, torch.tensor([0, 0, 1, 1]))  # exactly half
        module(energy, ring, torch.tensor([0, 0, -1, 1]))  # one known edge
        module(energy, ring, torch.tensor([0, -1, 1, -1]))  # none known
        module(energy, ring)


@pytest.mark.parametrize('args', [(-1,), (2, 1.5), (2, -0.1)])
def test_bad_arguments(args):
    with pytest.raises(ValueError, match='num_layers >= 0 and alpha in'):
        EnergyPropagation(*args)


def test_one_energy_per_node():
    with pytest.raises(ValueError, match=r'shape \[N\] \(got \[3, 1\]\)'):
        EnergyPropagation()(torch.randn(3, 1), torch.tensor([[0], [1]]))


def test_repr():
    assert str(EnergyPropagation()) == (
        "EnergyPropagation(num_layers=2, alpha=0.5, isolated='keep')"
    )
