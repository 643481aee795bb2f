"""A check that lets broken layers pass is worth nothing: these fail."""

import pytest
import torch

from torch_geometric.nn import GCNConv

from torch_energy_graph.nn import EnergyAttentionConv, EnergyTransformerConv
from torch_energy_graph.testing import (
    ContractError,
    check_energy,
    in_star,
    random_graph,
)


class Quadratic(torch.nn.Module):
    """E = |g|^2 / 2, the smallest layer with an energy."""

    energy_contract = 'exact'
    channels = 3

    def forward(self, g):
        return -g

    def energy(self, g, batch=None, batch_size=None, reduction='graph'):
        energy = g.square().sum(-1) / 2
        if reduction == 'node':
            return energy
        if batch is None:
            return energy.sum()
        return energy.new_zeros(batch_size).index_add(0, batch, energy)


def test_a_layer_of_ten_lines_passes():
    check_energy(Quadratic())


class WrongSlope(Quadratic):
    def forward(self, g):
        return -g * (1 + 1e-9)


class WrongTotal(Quadratic):
    def energy(self, g, **kwargs):
        extra = 0 if kwargs.get('reduction') == 'node' else 1e-6
        return super().energy(g, **kwargs) + extra


class WrongBatch(Quadratic):
    def energy(self, g, batch=None, **kwargs):
        if batch is not None:
            batch = batch.sort().values
        return super().energy(g, batch, **kwargs)


class WrongNodes(Quadratic):
    def energy(self, g, reduction='graph', **kwargs):
        energy = super().energy(g, reduction=reduction, **kwargs)
        return energy.sum() if reduction == 'node' else energy


class NotFinite(Quadratic):
    def forward(self, g):
        return -g / g.size(0) * g.size(0) if g.size(0) == 1 else g / 0 * 0


@pytest.mark.parametrize(
    ('layer', 'message'),
    [
        (WrongSlope, r"graph 'directed multigraph': -dE/dg: deviates by"),
        (WrongTotal, 'energy of the graph, over the sum of its nodes'),
        (WrongBatch, "graph 'shuffled union': energies of the graphs"),
        (WrongNodes, 'expected one energy per node'),
        (NotFinite, 'values are not finite'),
    ],
)
def test_broken_layers_fail(layer, message):
    with pytest.raises(ContractError, match=message):
        check_energy(layer())


class QueryTermOnly(EnergyAttentionConv):
    """Ordinary attention: what a node owes as a key is left out."""

    def descent(self, g, edges):
        def at_query(point):
            q, keys = point, g.detach()
            q = (q @ self.weight_q.flatten(0, 1).t()).view(-1, self.heads, 8)
            k = (keys @ self.weight_k.flatten(0, 1).t()).view_as(q)
            index = edges.cache.edge_index()
            logits = (q[index[1]] * k[index[0]]).sum(-1) * self.beta()
            zero = torch.zeros(g.size(0), self.heads).to(g)
            return zero.index_add(0, index[1], logits.exp()) / self.beta()

        with torch.enable_grad():
            point = g.detach().requires_grad_()
            total = at_query(point)
            lse = total[total > 0].mul(self.beta()).log() / self.beta()
            (slope,) = torch.autograd.grad(lse.sum(), point)
        return slope


def test_attention_without_its_key_term_fails():
    torch.manual_seed(0)
    layer = QueryTermOnly(8)
    # the star's leaves are only keys: they should move, and do not
    with pytest.raises(ContractError, match="graph 'star': -dE/dg"):
        check_energy(layer, {'star': in_star(4)})


class EnergyOff(EnergyAttentionConv):
    def node_energy(self, g, edges):
        return 1.001 * super().node_energy(g, edges)


def test_an_energy_that_is_off_fails():
    torch.manual_seed(0)
    with pytest.raises(ContractError, match='-dE/dg: deviates'):
        check_energy(EnergyOff(8, heads=2))


class TooBold(EnergyAttentionConv):
    def curvature(self, edges):
        return 1e-3 * super().curvature(edges)


def test_an_uncertified_step_fails():
    torch.manual_seed(0)
    bold, safe = TooBold(8, heads=2), EnergyAttentionConv(8, heads=2)
    with torch.no_grad():
        # neighbours repel each other: moving all at once overshoots
        bold.weight_k.copy_(-bold.weight_q)
        safe.load_state_dict(bold.state_dict())
    check_energy(safe)
    with pytest.raises(ContractError, match='certified step raised'):
        check_energy(bold)


class WrongMemory(EnergyTransformerConv):
    def _node_energy(self, g, edges):
        return self.attention.node_energy(g, edges)


def test_a_state_layer_that_forgets_a_term_fails():
    torch.manual_seed(0)
    with pytest.raises(ContractError, match='one step, over -alpha dE/dg'):
        check_energy(WrongMemory(4, 6))


def test_the_layer_itself_is_not_changed():
    layer = EnergyTransformerConv(4, 6)
    layer.train()
    before = {key: v.clone() for key, v in layer.state_dict().items()}
    check_energy(layer, {'random': random_graph(5, 9)})
    assert layer.training
    for key, value in layer.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[key])


def test_layers_without_an_energy_are_refused():
    with pytest.raises(ValueError, match="energy_contract = 'exact'"):
        check_energy(GCNConv(4, 4))


def test_unknown_channels():
    layer = EnergyTransformerConv(-1, 6)
    with pytest.raises(ValueError, match="give 'channels'"):
        check_energy(layer)
    check_energy(layer, {'random': random_graph(5, 9)}, channels=3)
