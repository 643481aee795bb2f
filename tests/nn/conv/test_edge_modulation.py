import pytest
import torch

from torch_energy_graph.nn import EnergyTransformerConv
from torch_energy_graph.nn.conv.edge_modulation import EdgeModulation
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.testing import random_graph


def test_two_edges_by_hand():
    layer = EdgeModulation(2, 2, edge_dim=1)
    with torch.no_grad():
        layer.lin.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
        layer.lin_edge.weight.copy_(torch.tensor([[10.0], [0.0]]))
        layer.bias.copy_(torch.tensor([0.5, -1.0]))
    x = torch.tensor([[1.0, 2.0], [3.0, 0.0], [-1.0, 1.0]])
    # W x: [3, 4], [3, 0], [0, 2]
    edge_index = torch.tensor([[0, 2], [1, 0]])
    out = layer(x, edge_index, torch.tensor([[0.1], [-1.0]]))
    # edge 0: 9 + 1 + 0.5, 0 - 1 < 0; edge 1: 0 - 10 + 0.5 < 0, 8 - 1
    torch.testing.assert_close(out, torch.tensor([[10.5, 0.0], [0.0, 7.0]]))


def test_numbering_direction_and_form_of_edges_do_not_matter():
    torch.manual_seed(0)
    layer = EdgeModulation(4, 6).double()
    graph = random_graph(8, 30, seed=1)
    x = torch.randn(8, 4, dtype=torch.double)
    out = layer(x, graph.edge_index)
    assert (out > 0).any()
    perm = torch.randperm(8)
    moved = layer(x[perm], perm.argsort()[graph.edge_index])
    torch.testing.assert_close(moved, out)
    torch.testing.assert_close(layer(x, graph.edge_index.flip(0)), out)
    cache = GraphCache.from_edge_index(graph.edge_index, 8)
    torch.testing.assert_close(layer(x, cache), out)


def test_it_is_the_positive_weight_of_every_edge_in_an_energy():
    torch.manual_seed(0)
    modulation = EdgeModulation(4, 3).double()
    conv = EnergyTransformerConv(4, heads=1, edge_dim=3).double()
    graph = random_graph(7, 25, seed=2)
    x = torch.randn(7, 4, dtype=torch.double)
    attr = modulation(x, graph.edge_index)
    weight = conv.attention.lin_edge(attr).exp().squeeze(-1)  # A_e
    plain = EnergyTransformerConv(4, heads=1).double()
    state = conv.state_dict()
    del state['attention.lin_edge.weight']
    plain.load_state_dict(state)
    torch.testing.assert_close(
        conv.energy(x, graph.edge_index, edge_attr=attr),
        plain.energy(x, graph.edge_index, edge_weight=weight),
    )


def test_a_step_along_the_gradient_of_the_modulated_energy():
    torch.manual_seed(0)
    modulation = EdgeModulation(4, 3).double()
    conv = EnergyTransformerConv(
        4, heads=2, edge_dim=3, num_steps=1, step_size=0.3
    ).double()
    graph = random_graph(7, 25, seed=2)  # directed, with parallel edges
    x = torch.randn(7, 4, dtype=torch.double)
    args = (graph.edge_index, modulation(x, graph.edge_index))
    g = conv.norm(x).detach().requires_grad_()
    energy = conv.attention.energy(g, *args) + conv.memory.energy(g)
    grad = torch.autograd.grad(energy, g)[0]
    out = conv(x, args[0], edge_attr=args[1])
    torch.testing.assert_close(out, x - 0.3 * grad, rtol=0, atol=1e-12)


def test_wrong_use():
    with pytest.raises(ValueError, match='out_channels >= 1'):
        EdgeModulation(4, 0)
    layer = EdgeModulation(4, 2, edge_dim=3)
    edges, x = torch.tensor([[0], [1]]), torch.ones(2, 4)
    with pytest.raises(ValueError, match="built with 'edge_dim'"):
        layer(x, edges)
    with pytest.raises(ValueError, match="built with 'edge_dim'"):
        EdgeModulation(4, 2)(x, edges, torch.ones(1, 3))
