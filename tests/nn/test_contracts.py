"""Every layer of the package, and two of PyG, through the public checks."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, TransformerConv

from torch_energy_graph.nn import (
    DIFFormerConv,
    DiffusionAttention,
    EnergyAttentionConv,
    EnergyLayerNorm,
    EnergyTransformerConv,
    HopfieldNetwork,
)
from torch_energy_graph.testing import (
    check_energy,
    conv_checks,
    random_graph,
)

EDGE_ATTR = {
    'edge_attr': lambda num_edges, generator: torch.randn(
        num_edges, 3, generator=generator
    )
}
SCALAR_ATTR = {
    'edge_attr': lambda num_edges, generator: torch.randn(
        num_edges, generator=generator
    )
}
EDGE_TYPE = {
    'edge_type': lambda num_edges, generator: torch.randint(
        3, (num_edges,), generator=generator
    )
}

EDGE_WEIGHT = {
    'edge_weight': lambda num_edges, generator: torch.rand(
        num_edges, generator=generator
    )
}

attention = partial(partial, EnergyAttentionConv)
transformer = partial(partial, EnergyTransformerConv, num_steps=2)
memory = partial(partial, HopfieldNetwork)
difformer = partial(partial, DIFFormerConv)


def all_pairs(**kwargs):
    return lambda channels: DiffusionAttention(channels, channels, **kwargs)


# name: factory, profile, edge inputs
LAYERS = {
    'attention': (attention(), 'field', None),
    'attention-heads': (
        attention(heads=2, head_channels=5, beta='learn'),
        'field',
        None,
    ),
    'attention-edge_dim': (attention(heads=2, edge_dim=3), 'field', EDGE_ATTR),
    'attention-edge_dim-1': (attention(edge_dim=1), 'field', SCALAR_ATTR),
    'attention-relations': (
        attention(heads=2, num_relations=3),
        'field',
        EDGE_TYPE,
    ),
    'attention-loops': (attention(add_self_loops=True), 'field', None),
    'transformer': (transformer(heads=2), 'conv', None),
    'transformer-auto': (transformer(step_size='auto'), 'conv', None),
    'transformer-learn': (
        transformer(heads=2, step_size='learn', beta='learn'),
        'conv',
        None,
    ),
    'transformer-checkpoint': (transformer(checkpoint=True), 'conv', None),
    'transformer-edge_dim': (
        transformer(heads=2, edge_dim=3, step_size='auto'),
        'conv',
        EDGE_ATTR,
    ),
    'transformer-relations': (
        transformer(num_relations=3, step_size='auto'),
        'conv',
        EDGE_TYPE,
    ),
    'memory-relu': (memory(), 'node', None),
    'memory-softmax': (
        memory(activation='softmax', beta='learn'),
        'node',
        None,
    ),
    'memory-power': (memory(activation='power', power=4.0), 'node', None),
    'difformer': (difformer(heads=2), 'conv', None),
    'difformer-global': (
        difformer(heads=2, normalize='global', graph_weight=0.3),
        'conv',
        EDGE_WEIGHT,
    ),
    'difformer-sigmoid': (difformer(kernel='sigmoid'), 'conv', EDGE_WEIGHT),
    'all_pairs-node': (all_pairs(heads=2), 'node', None),
    'all_pairs-global': (all_pairs(normalize='global'), 'node', None),
    'all_pairs-sigmoid': (
        all_pairs(kernel='sigmoid', heads=2, use_value=False),
        'node',
        None,
    ),
    'norm': (EnergyLayerNorm, 'node', None),
    'pyg-gcn': (GCNConv, 'conv', None),
    'pyg-transformer': (TransformerConv, 'conv', None),
}

# What a layer does not promise, and why.
EXCEPTIONS = {
    # the step is detached on purpose: its certificate needs no gradient
    ('transformer-auto', 'gradients'),
    ('transformer-edge_dim', 'gradients'),
    ('transformer-relations', 'gradients'),
    # torch 2.13 fails on the float attributes of a checkpointed function when
    # all is dynamic; sizes that turn out to be dynamic are tested below
    ('transformer-checkpoint', 'compiles_dynamic'),
    # self-loops are removed first, which depends on values
    ('attention-loops', 'compiles'),
    ('attention-loops', 'compiles_dynamic'),
    ('attention-loops', 'exports'),
    # neither host passes edge types
    ('transformer-relations', 'basic_gnn'),
    # attention is between all nodes, not along edges
    ('difformer', 'attention_explainer'),
    ('difformer-global', 'attention_explainer'),
    ('difformer-sigmoid', 'attention_explainer'),
    # PyG's layers know nothing of our cache, and GCN has no attention
    ('pyg-gcn', 'graph_cache'),
    ('pyg-gcn', 'sparse_csc'),
    ('pyg-gcn', 'attention_explainer'),
    ('pyg-transformer', 'graph_cache'),
    ('pyg-transformer', 'sparse_csc'),
}

PAIRS = [
    pytest.param(layer, check, id=f'{layer}-{name}')
    for layer, (_, profile, _) in LAYERS.items()
    for name, check in conv_checks(profile)
    if (layer, name) not in EXCEPTIONS
]


@pytest.mark.parametrize(('layer', 'check'), PAIRS)
def test_drop_in(layer, check):
    factory, _, edge_inputs = LAYERS[layer]
    check(factory, edge_inputs=edge_inputs)


OTHERS = ('norm', 'pyg', 'difformer', 'all_pairs')  # descend on no energy
OURS = [name for name in LAYERS if name.split('-')[0] not in OTHERS]


@pytest.mark.parametrize('layer', OURS)
def test_energy(layer):
    check_energy(build(layer), edge_inputs=LAYERS[layer][2])


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(0, 6))
    node = st.integers(0, max(num_nodes - 1, 0))
    most = 12 if num_nodes else 0
    edges = draw(st.lists(st.tuples(node, node), max_size=most))
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    return Data(edge_index=edge_index.contiguous(), num_nodes=num_nodes)


@pytest.mark.parametrize('layer', ['attention-loops', 'transformer-edge_dim'])
@given(pair=st.tuples(graphs(), graphs()), seed=st.integers(0, 99))
@settings(max_examples=8)
def test_energy_on_drawn_graphs(layer, pair, seed):
    drawn = dict(zip(('first', 'second'), pair, strict=True))
    inputs = LAYERS[layer][2]
    check_energy(build(layer, seed), drawn, edge_inputs=inputs, seed=seed)


@pytest.mark.parametrize('activation', ['relu', 'softmax', 'power'])
def test_memory_energies_are_concave(activation):
    # then a descent is certified whatever the curvature of other terms
    torch.manual_seed(0)
    layer = HopfieldNetwork(8, activation=activation).double()
    a, b = torch.randn(2, 500, 8).double()
    middle = layer.energy((a + b) / 2, reduction='node')
    ends = layer.energy(a, reduction='node') + layer.energy(
        b, reduction='node'
    )
    assert (middle >= ends / 2 - 1e-12).all()


def test_checkpoint_compiles_for_several_sizes():
    layer = build('transformer-checkpoint')
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend='aot_eager')
    for num_nodes, num_edges in ((10, 40), (15, 50), (9, 21)):
        edge_index = random_graph(num_nodes, num_edges).edge_index
        x = torch.randn(num_nodes, 8)
        expected = layer(x, edge_index)
        torch.testing.assert_close(compiled(x, edge_index), expected)


@pytest.mark.full
@pytest.mark.parametrize('layer', ['attention-heads', 'transformer-auto'])
def test_inductor(layer):
    layer = build(layer)
    edge_index = random_graph(10, 40).edge_index
    x = torch.randn(10, 8)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True)
    out = compiled(x, edge_index)
    torch.testing.assert_close(out, layer(x, edge_index))


def build(name, seed=0):
    factory, profile, _ = LAYERS[name]
    torch.manual_seed(seed)
    return factory(8, 12) if profile == 'conv' else factory(8)
