"""The contract of retrieval: which layers keep it, and which are caught."""

import pytest
import torch

from torch_energy_graph.energies import separation as separations
from torch_energy_graph.nn.aggr import HopfieldAggregation
from torch_energy_graph.nn.attention.hopfield import Hopfield
from torch_energy_graph.nn.attention.hopfield_memory import HopfieldMemory
from torch_energy_graph.nn.conv.hopfield_conv import HopfieldConv
from torch_energy_graph.testing import (
    ContractError,
    check_energy,
    random_graph,
    standard_graphs,
)

EDGE_ATTR = {
    'edge_attr': lambda num_edges, generator: torch.randn(
        num_edges, 3, generator=generator
    )
}
FEW = {'random': random_graph(9, 40, num_isolated=2)}
LAYERS = {
    'conv': (HopfieldConv(8, 6, heads=2, steps=2, beta='learn'), None),
    'conv-edges': (HopfieldConv(8, 6, heads=2, edge_dim=3), EDGE_ATTR),
    'pooling': (HopfieldAggregation(8, 6, 2, heads=2, steps=2), None),
    'memory': (HopfieldMemory(8, heads=2, steps=3), None),
    'dense': (Hopfield(8, heads=2, steps=2), None),
}


@pytest.mark.parametrize('name', LAYERS)
def test_layers_keep_it(name):
    layer, inputs = LAYERS[name]
    check_energy(
        layer, standard_graphs(), edge_inputs=inputs, channels=8, rtol=1e-9
    )


@pytest.mark.parametrize('separation', separations.SEPARATIONS)
def test_with_every_separation(separation):
    options = {'heads': 2, 'separation': separation}
    check_energy(HopfieldConv(8, 6, **options), FEW)
    check_energy(HopfieldAggregation(8, 6, **options), FEW)


class Wrong:
    """Delegates to an association, and adds something."""

    def __init__(self, found):
        self.found, self.state = found, found.state

    def step(self, state):
        return self.found.step(state)

    def energy(self, state):
        return self.found.energy(state)


class WrongStep(Wrong):
    def step(self, state):
        return (1 + 1e-6) * self.found.step(state)


class WrongSign(Wrong):
    def energy(self, state):
        return -self.found.energy(state)


class Negative(Wrong):
    def energy(self, state):
        return self.found.energy(state) - 1e3


class WrongTotal(HopfieldMemory):
    def energy(self, x, *args, **kwargs):
        return super().energy(x, *args, **kwargs) + 1e-3


class Coupled(HopfieldMemory):
    def forward(self, x, **kwargs):
        out = super().forward(x, **kwargs)
        return out + out.sum() * 1e-6


@pytest.mark.parametrize(
    ('wrong', 'message'),
    [
        (WrongStep, 'one update, over xi - dE/dxi'),
        (WrongSign, 'one update, over xi - dE/dxi'),
        (Negative, 'an energy is negative'),
    ],
)
def test_wrong_associations_are_caught(wrong, message):
    class Layer(HopfieldMemory):
        def association(self, x):
            return wrong(super().association(x))

    with pytest.raises(ContractError, match=message):
        check_energy(Layer(8), FEW)


@pytest.mark.parametrize(
    ('layer', 'message'),
    [(WrongTotal, 'energy, over that'), (Coupled, "'union': output")],
)
def test_wrong_layers_are_caught(layer, message):
    graphs = {**FEW, 'other': random_graph(5, 9, seed=1)}
    with pytest.raises(ContractError, match=message):
        check_energy(layer(8), graphs)
