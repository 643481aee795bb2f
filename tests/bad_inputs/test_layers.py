"""Bad input gets a message that says how to mend it; odd input works."""

import math

import pytest
import torch

from torch_energy_graph.nn import (
    EnergyAttentionConv,
    EnergyLayerNorm,
    EnergyTransformerConv,
    HopfieldNetwork,
)
from torch_energy_graph.ops import (
    GraphCache,
    energy_attention,
    scatter_softmax,
    use_backend,
)

LAYERS = [EnergyAttentionConv, EnergyTransformerConv]
TRIANGLE = torch.tensor([[0, 1, 2], [1, 2, 0]])


def features(num_nodes=3, channels=4):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(num_nodes, channels, generator=generator)


def edges(*pairs):
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()


@pytest.fixture(params=LAYERS, ids=['attention', 'transformer'])
def layer(request):
    torch.manual_seed(0)
    return request.param(4)


# Edge lists


@pytest.mark.parametrize(
    ('edge_index', 'message'),
    [
        (TRIANGLE.float(), r'int64 or int32 node ids \(got torch.float32\)'),
        (TRIANGLE.bool(), r'int64 or int32 node ids \(got torch.bool\)'),
        (TRIANGLE.t(), r'shape \[2, E\] \(got \[3, 2\]\); transpose'),
        (TRIANGLE.flatten(), r'shape \[2, E\] \(got \[6\]\)'),
        (TRIANGLE.tolist(), r"'GraphCache' \(got list\)"),
    ],
)
def test_wrong_edge_index(layer, edge_index, message):
    with pytest.raises(ValueError, match=message):
        layer(features(), edge_index)


@pytest.mark.parametrize(
    ('pair', 'message'),
    [
        ((3, 0), r'source node 3, but there are only 3 \(ids 0 to 2\)'),
        ((0, 7), r'target node 7, but there are only 3'),
        ((-1, 0), r'source node -1'),
    ],
)
def test_node_ids_out_of_range(layer, pair, message):
    with pytest.raises(IndexError, match=message):
        layer(features(), edges((0, 1), pair))


def test_node_ids_out_of_range_edge_by_edge():
    layer = EnergyAttentionConv(4)
    with pytest.raises(IndexError, match='3'):
        layer(features(), edges((3, 0)), return_attention_weights=True)


def test_no_nodes_but_edges(layer):
    with pytest.raises(IndexError, match='there are only 0'):
        layer(features(0), edges((0, 0)))


def test_int32_edges(layer):
    expected = layer(features(), TRIANGLE)
    assert torch.equal(layer(features(), TRIANGLE.int()), expected)


def test_cache_of_another_graph(layer):
    cache = GraphCache.from_edge_index(TRIANGLE, 5)
    with pytest.raises(ValueError, match='built for 5 sources and 5 targets'):
        layer(features(), cache)


# Graphs that are odd, but right


def test_no_edges():
    attention = EnergyAttentionConv(4)
    none = edges()
    assert torch.equal(attention(features(), none), torch.zeros(3, 4))
    assert attention.energy(features(), none) == 0


def test_no_nodes(layer):
    assert layer(features(0), edges()).shape == (0, 4)
    energy = layer.energy(features(0), edges())
    assert energy.shape == ()
    assert energy == 0
    nodes = layer.energy(features(0), edges(), reduction='node')
    assert nodes.shape == (0,)


@pytest.mark.parametrize('num_steps', [0, 3])
def test_no_nodes_have_a_trace(num_steps):
    layer = EnergyTransformerConv(4, num_steps=num_steps)
    out, trace = layer(features(0), edges(), return_trace=True)
    assert out.shape == (0, 4)
    assert trace.energy.tolist() == [0] * (num_steps + 1)


def test_an_isolated_node_has_no_attention_energy():
    attention = EnergyAttentionConv(4)
    g = features()
    pair = edges((0, 1), (1, 0))
    energy = attention.energy(g, pair, reduction='node')
    assert energy[2] == 0
    assert torch.equal(attention(g, pair)[2], torch.zeros(4))


def test_a_node_without_in_edges_still_moves_as_a_key():
    attention = EnergyAttentionConv(4)
    g = features(2)
    energy = attention.energy(g, edges((0, 1)), reduction='node')
    assert energy[0] == 0
    assert attention(g, edges((0, 1)))[0].abs().max() > 0


def test_one_node_with_a_loop_by_hand():
    attention = EnergyAttentionConv(4).double()
    g = features(1).double()
    q = g @ attention.weight_q[0].t()
    k = g @ attention.weight_k[0].t()
    # one edge: the log-sum-exp is its logit, so E = -q.k
    energy = attention.energy(g, edges((0, 0)))
    torch.testing.assert_close(energy, -(q * k).sum())
    expected = k @ attention.weight_q[0] + q @ attention.weight_k[0]
    torch.testing.assert_close(attention(g, edges((0, 0))), expected)


def test_parallel_edges_count_as_often_as_they_stand():
    attention = EnergyAttentionConv(4, beta=0.5).double()
    g = features().double()
    once = attention.energy(g, TRIANGLE)
    twice = attention.energy(g, TRIANGLE.repeat(1, 2))
    # each of 3 log-sum-exps grows by log 2
    torch.testing.assert_close(twice, once - 3 * math.log(2) / 0.5)
    weight = torch.full((3,), 2.0).double()
    weighted = attention.energy(g, TRIANGLE, edge_weight=weight)
    torch.testing.assert_close(weighted, twice)


def test_directed_edges_differ_from_their_reverse():
    attention = EnergyAttentionConv(4)
    pair = edges((0, 1))
    out = attention(features(2), pair)
    assert not torch.allclose(out, attention(features(2), pair.flip(0)))


# Edge weights, features and types


@pytest.mark.parametrize('value', [0.0, -1.0, math.nan])
def test_edge_weights_must_be_positive(layer, value):
    weight = torch.tensor([1.0, value, 1.0])
    message = rf"'edge_weight' must be > 0.*edge 1 has {value}.*drop edges"
    with pytest.raises(ValueError, match=message):
        layer(features(), TRIANGLE, edge_weight=weight)


@pytest.mark.parametrize('shape', [(2,), (3, 1)])
def test_edge_weight_of_another_shape(layer, shape):
    with pytest.raises(ValueError, match=r'one weight per edge, \[3\]'):
        layer(features(), TRIANGLE, edge_weight=torch.ones(shape))


def test_edge_attr_without_edge_dim(layer):
    with pytest.raises(ValueError, match=r'edge_dim=None.*edge_weight'):
        layer(features(), TRIANGLE, edge_attr=torch.ones(3, 2))


@pytest.mark.parametrize('kind', LAYERS)
def test_edge_dim_without_edge_attr(kind):
    layer = kind(4, edge_dim=2)
    with pytest.raises(ValueError, match='edge_dim=2'):
        layer(features(), TRIANGLE)
    with pytest.raises(ValueError, match=r'\[3, 2\] \(got \[3, 5\]\)'):
        layer(features(), TRIANGLE, edge_attr=torch.ones(3, 5))


def test_edge_type_without_relations(layer):
    with pytest.raises(ValueError, match='num_relations=None'):
        layer(features(), TRIANGLE, edge_type=torch.zeros(3).long())


@pytest.mark.parametrize('kind', LAYERS)
def test_wrong_edge_type(kind):
    layer = kind(4, num_relations=2)
    with pytest.raises(ValueError, match='num_relations=2'):
        layer(features(), TRIANGLE)
    for edge_type, message in (
        ([0, 1, 2], r'in 0 to 1 \(got 2\); raise num_relations'),
        ([0, 1, -1], r'in 0 to 1 \(got -1\)'),
        ([0, 1], r'one relation per edge, \[3\] \(got \[2\]\)'),
        ([0.0, 1.0, 1.0], r'must hold integers \(got torch.float32\)'),
    ):
        with pytest.raises(ValueError, match=message):
            layer(features(), TRIANGLE, edge_type=torch.tensor(edge_type))


# Node features


def test_bipartite_input(layer):
    with pytest.raises(ValueError, match=r'bipartite.*\(got tuple\).*edge_ty'):
        layer((features(), features()), TRIANGLE)


def test_wrong_channels():
    attention = EnergyAttentionConv(4)
    message = r'shape \[N, 4\] \(got \[3, 5\]\)'
    with pytest.raises(ValueError, match=message):
        attention(features(3, 5), TRIANGLE)
    with pytest.raises(ValueError, match=message):
        attention.energy(features(3, 5), TRIANGLE)
    with pytest.raises(ValueError, match='expects 4 channels'):
        EnergyLayerNorm(4)(features(3, 5))
    memory = HopfieldNetwork(4)
    with pytest.raises(ValueError, match=r'shape \[N, 4\] \(got \[3, 5\]\)'):
        memory(features(3, 5))


@pytest.mark.parametrize('out_channels', [4, 6])
def test_wrong_input_channels(out_channels):
    layer = EnergyTransformerConv(4, out_channels)
    with pytest.raises(ValueError, match=r'4.*\(got.*\[3, 5\]'):
        layer(features(3, 5), TRIANGLE)


@pytest.mark.parametrize('value', [math.nan, math.inf])
def test_nan_and_inf_reach_the_nodes_that_read_them_only(layer, value):
    x = features(5)
    x[0, 0] = value
    path = edges((0, 1), (1, 0), (2, 3), (3, 2))
    out = layer(x, path)
    assert not out[:2].isfinite().all()
    assert torch.equal(out[2:], layer(features(5), path)[2:])


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_energies_of_half_types_are_float32(layer, dtype):
    layer, x = layer.to(dtype), features().to(dtype)
    assert layer(x, TRIANGLE).dtype == dtype
    energy = layer.energy(x, TRIANGLE)
    assert energy.dtype == torch.float32
    exact = layer.double().energy(x.double(), TRIANGLE)
    torch.testing.assert_close(energy.double(), exact, rtol=2e-2, atol=2e-2)


# Steps


@pytest.mark.parametrize('step_size', [0.1, 'learn', 'auto'])
def test_no_steps(step_size):
    layer = EnergyTransformerConv(4, num_steps=0, step_size=step_size)
    x = features()
    out, trace = layer(x, TRIANGLE, return_trace=True)
    assert torch.equal(out, x)
    assert trace.energy.shape == (1,)
    assert trace.num_steps == 0
    assert trace.is_monotone()
    torch.testing.assert_close(trace.energy[0], layer.energy(x, TRIANGLE))


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'num_steps': -1}, 'num_steps >= 0'),
        ({'noise_std': -0.1}, 'noise_std >= 0'),
        ({'step_size': 0.0}, "'step_size' must be a finite number > 0"),
        ({'step_size': 'fast'}, "or 'learn'.*fast"),
        ({'step_size': math.nan}, "'step_size' must be a finite number"),
        ({'beta': -1.0}, "'beta' must be a finite number > 0"),
        ({'heads': 0}, 'heads >= 1'),
        ({'out_channels': 0}, 'out_channels >= 1'),
        ({'num_memories': 0}, 'num_memories >= 1'),
        ({'activation': 'tanh'}, "'softmax'.*tanh"),
        ({'aggr': 'mean'}, "aggr='mean'"),
        ({'flow': 'target_to_source'}, 'Flip the edges'),
    ],
)
def test_wrong_constructor_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        EnergyTransformerConv(4, **options)


def test_wrong_batch(layer):
    with pytest.raises(ValueError, match=r'\[3\] \(got \[2\]\)'):
        layer.energy(features(), TRIANGLE, batch=torch.zeros(2).long())
    with pytest.raises(ValueError, match=r"'graph' or 'node' \(got 'sum'\)"):
        layer.energy(features(), TRIANGLE, reduction='sum')


# Operators


def test_groups_of_minus_infinity_give_zeros():
    src = torch.tensor([-math.inf, -math.inf, 1.0, -math.inf])
    index = torch.tensor([0, 0, 2, 2])
    out = scatter_softmax(src, index, num_nodes=4)
    assert out.tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize('backend', ['torch', 'reference'])
def test_a_row_of_masked_edges_is_an_empty_row(backend):
    q, k = features(3, 4).view(3, 2, 2), features(3, 4).view(3, 2, 2) + 1
    bias = torch.zeros(3, 2)
    bias[0] = -math.inf  # the only edge into node 1
    with use_backend(backend):
        lse, u, v = energy_attention(q, k, TRIANGLE, 0.7, bias)
    assert lse[1].tolist() == [-math.inf] * 2
    assert u[1].abs().max() == 0
    assert v[0].abs().max() == 0
    assert u.isfinite().all()
    assert v.isfinite().all()
    # the others have one edge each, of weight one
    torch.testing.assert_close(u[[2, 0]], k[[1, 2]])


@pytest.mark.parametrize('backend', ['torch', 'reference'])
def test_a_masked_row_gives_no_nan_gradient(backend):
    q = features(3, 2).view(3, 1, 2).requires_grad_()
    bias = torch.tensor([[-math.inf], [0.0], [0.0]], requires_grad=True)
    with use_backend(backend):
        lse, u, v = energy_attention(q, q, TRIANGLE, 1.0, bias)
        energy = lse.masked_fill(lse.isinf(), 0.0).sum()
        (energy + u.square().sum() + v.square().sum()).backward()
    assert q.grad.isfinite().all()
    assert bias.grad.isfinite().all()


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'q': torch.ones(3, 4)}, r'q \[N_dst, H, Y\]'),
        ({'q': torch.ones(3, 2, 3)}, 'of equal H and Y'),
        ({'q': torch.ones(3, 2, 2).double()}, 'one floating-point type'),
        ({'beta': 0.0}, r'finite beta > 0 \(got 0.0\)'),
        ({'beta': math.nan}, 'finite beta > 0'),
        ({'beta': torch.ones(3)}, 'each of the 2 heads'),
        ({'bias': torch.zeros(3)}, r'bias of shape \[E, H\] = \[3, 2\]'),
    ],
)
def test_wrong_operator_arguments(change, message):
    k = torch.ones(3, 2, 2)
    arguments = {'q': k, 'k': k, 'graph': TRIANGLE, 'beta': 1.0, **change}
    with pytest.raises(ValueError, match=message):
        energy_attention(**arguments)


@pytest.mark.parametrize('backend', ['torch', 'reference'])
def test_a_hub_of_a_million_edges_does_not_drift(backend):
    num_leaves = 1_000_000
    leaves = torch.arange(1, num_leaves + 1)
    star = torch.stack([leaves, torch.zeros_like(leaves)])
    torch.manual_seed(0)
    layer = EnergyAttentionConv(4)
    g = features(num_leaves + 1)
    with torch.no_grad(), use_backend(backend):
        cache = GraphCache.from_edge_index(star, num_leaves + 1)
        energy = layer.energy(g, cache).double()
        exact = layer.double().energy(g.double(), cache)
    assert abs(energy - exact) <= 1e-5 * abs(exact)
