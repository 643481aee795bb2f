import math

import pytest
import torch

from torch_energy_graph.energies import (
    hopfield,
    hopfield_energy,
    hopfield_energy_grad,
)

CASES = [
    ('relu', {}),
    ('power', {'power': 2.0}),
    ('power', {'power': 3.0}),
    ('power', {'power': 4.5}),
    ('softmax', {'beta': 0.7}),
    ('softmax', {'beta': 3.0}),
]


@pytest.mark.parametrize(
    ('activation', 'options', 'energy', 'pull'),
    [
        ('relu', {}, -2.0, [2.0, 0.0]),
        ('power', {'power': 3.0}, -8 / 3, [4.0, 0.0]),
        ('softmax', {'beta': 1.0}, -math.log(math.exp(2) + 1), None),
    ],
)
def test_one_node_by_hand(activation, options, energy, pull):
    g = torch.tensor([[2.0, -1.0]])
    memories = torch.tensor([[1.0, 0.0], [0.5, 1.0]])  # overlaps 2 and 0
    found = hopfield_energy(g, memories, activation, **options)
    assert found.item() == pytest.approx(energy, rel=1e-6)
    if pull is not None:
        grad = hopfield_energy_grad(g, memories, activation, **options)
        assert (-grad).tolist() == [pull]


@pytest.mark.parametrize(('activation', 'options'), CASES)
def test_gradient_is_exact(activation, options):
    g = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    memories = torch.randn(7, 4, dtype=torch.double)
    energy = hopfield_energy(g, memories, activation, **options).sum()
    expected = torch.autograd.grad(energy, g)[0]
    found = hopfield_energy_grad(g, memories, activation, **options)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_power_two_is_relu():
    g, memories = torch.randn(5, 4).double(), torch.randn(7, 4).double()
    two = hopfield_energy(g, memories, 'power', power=2.0)
    torch.testing.assert_close(two, hopfield_energy(g, memories))


def test_unknown_activation():
    with pytest.raises(ValueError, match=r"got 'gelu'"):
        hopfield_energy(torch.ones(1, 1), torch.ones(1, 1), 'gelu')
    with pytest.raises(ValueError, match=r"got 'gelu'"):
        hopfield_energy_grad(torch.ones(1, 1), torch.ones(1, 1), 'gelu')


@pytest.mark.parametrize('num_nodes', [0, 1, 6, 7])
@pytest.mark.parametrize(('activation', 'options'), CASES)
def test_blocks_of_nodes(monkeypatch, activation, options, num_nodes):
    monkeypatch.setattr(hopfield, '_BLOCK', 3)
    g = torch.randn(num_nodes, 4)
    memories = torch.randn(7, 4)
    expected = hopfield_energy_grad(g, memories, activation, **options)
    with torch.no_grad():
        found = hopfield_energy_grad(g, memories, activation, **options)
    torch.testing.assert_close(found, expected)
