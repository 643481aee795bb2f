import pytest
import torch

from torch_geometric.utils import softmax

from torch_energy_graph.nn import EnergyAttentionConv
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.testing import random_graph

CONFIGS = [
    {},
    {'heads': 2, 'head_channels': 3, 'beta': 'learn'},
    {'edge_dim': 3},
    {'num_relations': 2},
    {'add_self_loops': True},
    {'num_relations': 2, 'add_self_loops': True, 'edge_dim': 3, 'heads': 2},
]


def inputs(config, num_edges=40):
    gen = torch.Generator().manual_seed(0)
    kwargs = {}
    if 'edge_dim' in config:
        kwargs['edge_attr'] = torch.randn(
            num_edges, 3, generator=gen, dtype=torch.double
        )
    if 'num_relations' in config:
        kwargs['edge_type'] = torch.randint(2, (num_edges,), generator=gen)
    g = torch.randn(9, 4, generator=gen, dtype=torch.double)
    graph = random_graph(9, num_edges, seed=1, num_isolated=2)
    return g, graph.edge_index, kwargs


def test_repr_and_reset():
    conv = EnergyAttentionConv(16, heads=4)
    assert str(conv) == 'EnergyAttentionConv(16, heads=4, head_channels=4)'
    assert conv.energy_contract == 'exact'
    assert conv.beta() == 0.5  # 1 / sqrt(4)


@pytest.mark.parametrize('config', CONFIGS)
def test_fused_and_propagate_paths_are_equal(config):
    conv = EnergyAttentionConv(4, **config).double()
    g, edge_index, kwargs = inputs(config)
    weight = torch.rand(40, dtype=torch.double) + 0.1
    fused = conv(g, edge_index, edge_weight=weight, **kwargs)
    calls = []
    handle = conv.register_propagate_forward_hook(
        lambda *_: calls.append(1)  # somebody looks inside
    )
    watched = conv(g, edge_index, edge_weight=weight, **kwargs)
    handle.remove()
    assert len(calls) == 2
    torch.testing.assert_close(watched, fused, rtol=1e-11, atol=1e-12)
    assert len(calls) == 2


def test_attention_weights():
    conv = EnergyAttentionConv(4, heads=2).double()
    g, edge_index, _ = inputs({})
    out, (edges, alpha) = conv(g, edge_index, return_attention_weights=True)
    assert torch.equal(edges, edge_index)
    q = torch.einsum('nc,hyc->nhy', g, conv.weight_q)
    k = torch.einsum('nc,hyc->nhy', g, conv.weight_k)
    logits = (q[edges[1]] * k[edges[0]]).sum(-1) * conv.beta()
    expected = softmax(logits, edges[1], num_nodes=9)
    torch.testing.assert_close(alpha, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(out, conv(g, edge_index))


def test_attention_weights_name_the_added_loops():
    conv = EnergyAttentionConv(4, num_relations=2, add_self_loops=True)
    edge_index = torch.tensor([[0, 1, 1], [1, 1, 0]])
    edge_type = torch.tensor([0, 1, 1])  # the loop of node 1 is replaced
    _, (edges, alpha) = conv(
        torch.randn(2, 4),
        edge_index,
        edge_type=edge_type,
        return_attention_weights=True,
    )
    assert edges.tolist() == [[0, 1, 0, 0, 1, 1], [1, 0, 0, 0, 1, 1]]
    assert alpha.shape == (6, 1)


@pytest.mark.parametrize('config', CONFIGS[:2])
def test_edge_weights_are_logit_biases(config):
    conv = EnergyAttentionConv(4, **config).double()
    g, edge_index, _ = inputs(config)
    double = conv(g, edge_index, edge_weight=torch.full((40,), 2.0).double())
    # the same factor everywhere shifts the energy and leaves the gradient
    torch.testing.assert_close(double, conv(g, edge_index))
    twice = conv(g, edge_index.repeat(1, 2))
    torch.testing.assert_close(twice, conv(g, edge_index))


def test_a_cache_is_accepted_and_saves_nothing_else():
    conv = EnergyAttentionConv(4).double()
    g, edge_index, _ = inputs({})
    cache = GraphCache.from_edge_index(edge_index, 9)
    assert torch.equal(conv(g, cache), conv(g, edge_index))
    assert torch.equal(conv.energy(g, cache), conv.energy(g, edge_index))


def test_other_aggregations_are_refused():
    with pytest.raises(ValueError, match='not the gradient of its energy'):
        EnergyAttentionConv(4, aggr='mean')
    with pytest.raises(ValueError, match='Flip the edges'):
        EnergyAttentionConv(4, flow='target_to_source')


@pytest.mark.parametrize('beta', [0.0, -1.0, float('nan'), 'large'])
def test_wrong_beta(beta):
    with pytest.raises(ValueError, match="'beta' must be a finite number > 0"):
        EnergyAttentionConv(4, beta=beta)


def test_learned_beta_starts_at_its_default():
    conv = EnergyAttentionConv(4, heads=2, head_channels=16, beta='learn')
    torch.testing.assert_close(conv.beta(), torch.tensor([0.25, 0.25]))
