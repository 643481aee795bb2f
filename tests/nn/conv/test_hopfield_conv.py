import pytest
import torch

from torch_geometric.nn import TransformerConv

from torch_energy_graph.energies.retrieval import hopfield_retrieve
from torch_energy_graph.nn.conv.hopfield_conv import HopfieldConv
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.testing import (
    conv_checks,
    random_graph,
    standard_graphs,
)

EDGE_ATTR = {
    'edge_attr': lambda num_edges, generator: torch.randn(
        num_edges, 3, generator=generator
    )
}


def inputs(num_edges=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    graph = random_graph(9, num_edges, seed=1, num_isolated=2)
    x = torch.randn(9, 8, generator=generator, dtype=torch.double)
    attr = torch.randn(num_edges, 3, generator=generator, dtype=torch.double)
    return x, graph.edge_index, attr


def build(seed=0, **config):
    torch.manual_seed(seed)
    return HopfieldConv(8, 6, **config).double()


@pytest.mark.parametrize(
    'config',
    [
        {},
        {'heads': 2},
        {'heads': 3, 'concat': False, 'bias': False},
        {'heads': 2, 'edge_dim': 3},
    ],
)
def test_one_step_is_the_transformer_conv(config):
    torch.manual_seed(0)
    peer = TransformerConv(8, 6, **config).double()
    conv = HopfieldConv(8, 6, **config).double()
    conv.load_state_dict(peer.state_dict())
    x, edge_index, attr = inputs()
    attr = attr if 'edge_dim' in config else None
    x.requires_grad_()
    expected, (_, alpha) = peer(
        x, edge_index, attr, return_attention_weights=True
    )
    out, (edges, weights) = conv(
        x, edge_index, attr, return_attention_weights=True
    )
    fused = conv(x, edge_index, attr)
    # PyG adds 1e-16 to its denominators
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(fused, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(weights, alpha, rtol=1e-11, atol=1e-12)
    assert edges.equal(edge_index)
    wanted = [x, *conv.parameters()]
    theirs = [x, *dict(sorted_like(peer, conv)).values()]
    grads = torch.autograd.grad(expected.square().sum(), theirs)
    actual = torch.autograd.grad(fused.square().sum(), wanted)
    torch.testing.assert_close(actual, grads, rtol=1e-9, atol=1e-10)


def sorted_like(module, other):
    weights = dict(module.named_parameters())
    return [(name, weights[name]) for name, _ in other.named_parameters()]


def by_definition(conv, x_src, x_dst, edge_index, attr=None):
    """One target after the other, on its in-edges."""
    size = (-1, conv.heads, conv.out_channels)
    state = conv.lin_query(x_dst).view(size).transpose(0, 1)
    keys, values = conv.lin_key(x_src), conv.lin_value(x_src)
    keys, values = keys[edge_index[0]], values[edge_index[0]]
    if attr is not None:
        keys, values = keys + conv.lin_edge(attr), values + conv.lin_edge(attr)
    beta = torch.as_tensor(conv.beta(), dtype=x_dst.dtype)
    beta = beta.expand(conv.heads).view(-1, 1)
    rows = []
    for node in range(x_dst.size(0)):
        mine = edge_index[1] == node
        if not mine.any():
            rows.append(torch.zeros(conv.heads, conv.out_channels).double())
            continue
        key = keys[mine].view(size).transpose(0, 1)  # [H, E_i, C]
        value = values[mine].view(size).transpose(0, 1)
        one = state[:, node : node + 1]
        for _ in range(conv.steps - 1):
            one = hopfield_retrieve(one, key, beta, separation=conv.separation)
        # values instead of keys in the last association
        both = torch.cat([key, value], dim=-1)
        wide = torch.cat([one, torch.zeros_like(one)], dim=-1)
        out = hopfield_retrieve(wide, both, beta, separation=conv.separation)
        rows.append(out[:, 0, conv.out_channels :])
    out = torch.stack(rows)
    out = out.flatten(1) if conv.concat else out.mean(1)
    return out if conv.lin_skip is None else out + conv.lin_skip(x_dst)


@pytest.mark.parametrize(
    'config',
    [
        {'steps': 3, 'heads': 2},
        {'steps': 2, 'heads': 2, 'edge_dim': 3, 'beta': 'learn'},
        {'steps': 3, 'heads': 2, 'beta': [0.1, 3.0], 'root_weight': False},
        {'steps': 2, 'separation': 'sparsemax', 'concat': False},
    ],
)
def test_equals_the_definition_on_both_paths(config):
    conv = build(**config)
    x, edge_index, attr = inputs()
    attr = attr if 'edge_dim' in config else None
    expected = by_definition(conv, x, x, edge_index, attr)
    torch.testing.assert_close(conv(x, edge_index, attr), expected)
    calls = []
    conv.register_message_forward_hook(lambda *_: calls.append(1))
    torch.testing.assert_close(conv(x, edge_index, attr), expected)
    assert len(calls) == conv.steps


def test_bipartite():
    torch.manual_seed(0)
    conv = HopfieldConv((8, 5), 6, heads=2, steps=2).double()
    x, x_dst = torch.randn(9, 8).double(), torch.randn(4, 5).double()
    edge_index = torch.stack(
        [torch.randint(9, (20,)), torch.randint(4, (20,))]
    )
    expected = by_definition(conv, x, x_dst, edge_index)
    torch.testing.assert_close(conv((x, x_dst), edge_index), expected)
    cache = GraphCache.from_edge_index(edge_index, (9, 4))
    torch.testing.assert_close(conv((x, x_dst), cache), expected)
    with pytest.raises(ValueError, match='bipartite'):
        conv((x, None), edge_index)


@pytest.mark.parametrize('edge_dim', [None, 3])
def test_energy_falls_and_the_update_is_its_gradient_step(edge_dim):
    conv = build(heads=2, edge_dim=edge_dim, beta='learn')
    x, edge_index, attr = inputs()
    args = (x, edge_index, attr if edge_dim else None)
    found = conv.association(*args)
    state = found.state.detach().requires_grad_()
    (slope,) = torch.autograd.grad(found.energy(state).sum(), state)
    torch.testing.assert_close(found.step(state), state - slope)
    energies = []
    for steps in range(1, 5):
        conv.steps = steps
        energies.append(conv.energy(*args, reduction='node'))
    falls = torch.stack(energies).diff(dim=0)
    assert (falls < 1e-12).all()
    assert (falls[0] < -1e-6).any()
    batch = torch.tensor([0, 1] * 4 + [0])
    both = conv.energy(*args, batch=batch, batch_size=2)
    torch.testing.assert_close(both.sum(), energies[-1].sum())


def test_energy_is_bounded_by_the_norm_of_the_keys():
    conv = build(heads=2)
    x, edge_index, _ = inputs()
    found = conv.association(x, edge_index)
    largest = found.keys.norm(dim=-1).max()
    energy = found.energy(found.step(found.state))  # in the convex hull
    assert (energy >= 0).all()
    assert (energy <= 2 * largest**2).all()


@pytest.mark.parametrize('name', ['no edges', 'no nodes', 'one node', 'hub'])
def test_degenerate_graphs(name):
    conv, graph = build(heads=2, steps=3), standard_graphs()[name]
    x = torch.randn(graph.num_nodes, 8).double()
    out = conv(x, graph.edge_index)
    expected = torch.zeros(graph.num_nodes, 12).double()
    if graph.num_nodes:
        expected = by_definition(conv, x, x, graph.edge_index)
    torch.testing.assert_close(out, expected)
    assert conv.energy(x, graph.edge_index).isfinite()


def test_second_order_gradients():
    conv = build(heads=2, steps=2)
    x, edge_index, _ = inputs(num_edges=20)
    x.requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda x: conv(x, edge_index), x, fast_mode=True
    )


def test_dropout_drops_weights_in_training_only():
    conv = build(dropout=0.5)
    x, edge_index, _ = inputs()
    assert not torch.allclose(conv(x, edge_index), conv(x, edge_index))
    conv.eval()
    assert conv(x, edge_index).equal(conv(x, edge_index))


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'steps': 0}, 'steps >= 1'),
        ({'heads': 0}, 'heads >= 1'),
        ({'aggr': 'mean'}, 'flip the edges'),
        ({'beta': 0.0}, "'beta' must be a finite number > 0"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        HopfieldConv(8, 6, **options)


def test_wrong_inputs():
    x, edge_index, attr = inputs()
    with pytest.raises(ValueError, match="'edge_attr' exactly when"):
        build()(x, edge_index, attr)
    with pytest.raises(ValueError, match="'edge_attr' exactly when"):
        build(edge_dim=3)(x, edge_index)
    with pytest.raises(ValueError, match=r'\[40, 2\]'):
        build(edge_dim=2)(x, edge_index, attr)
    with pytest.raises(ValueError, match=r'shape \[N, 8\]'):
        build()(x[:, :5], edge_index)


LAYERS = {
    'softmax': ({'steps': 2, 'beta': 'learn'}, None),
    'edge_dim': ({'steps': 2, 'edge_dim': 3}, EDGE_ATTR),
    'entmax15': ({'steps': 2, 'separation': 'entmax15'}, None),
}
# what depends on edge features or on the separation
FEW = (
    'attention_explainer',
    'autocast',
    'compiles',
    'degenerate_graphs',
    'dtypes',
    'edge_order',
    'gnn_explainer',
    'gradients',
    'graph_cache',
    'lazy_channels',
    'sorted_edge_index',
)
PAIRS = [
    pytest.param(layer, check, id=f'{layer}-{name}')
    for layer in LAYERS
    for name, check in conv_checks('conv')
    if layer == 'softmax' or name in FEW
]


@pytest.mark.parametrize(('layer', 'check'), PAIRS)
def test_drop_in(layer, check):
    options, edge_inputs = LAYERS[layer]

    def factory(*sizes, **more):
        return HopfieldConv(*sizes, **options, **more)

    check(factory, edge_inputs=edge_inputs)
