import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_energy_graph.nn import DiffusionAttention

KINDS = [
    {'kernel': 'simple', 'normalize': 'node'},
    {'kernel': 'simple', 'normalize': 'global'},
    {'kernel': 'sigmoid'},
]


def nodes(num_nodes, channels=4, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(num_nodes, channels, generator=gen, dtype=torch.double)


def all_pairs(layer, x):
    """The output on one graph, from all pairs of nodes."""
    q, k, v = layer.project(x)
    if layer.kernel == 'sigmoid':
        weights = torch.einsum('ihd,jhd->ijh', q, k).sigmoid()
    else:
        dim = -1 if layer.normalize == 'node' else None
        q, k = (
            t / torch.linalg.vector_norm(t, dim=dim, keepdim=True)
            for t in (q, k)
        )
        weights = 1 + torch.einsum('ihd,jhd->ijh', q, k)
    weights = weights / weights.sum(1, keepdim=True)
    v = v.expand(-1, layer.heads, -1)
    return torch.einsum('ijh,jhd->ihd', weights, v).mean(1), weights


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-12)


def test_repr_and_contract():
    layer = DiffusionAttention(4, 6, heads=2, kernel='sigmoid')
    assert str(layer) == (
        "DiffusionAttention(4, 6, heads=2, kernel='sigmoid', normalize='node')"
    )
    assert layer.energy_contract is None


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('heads', [1, 3])
@pytest.mark.parametrize('use_value', [True, False])
def test_equals_all_pairs(kind, heads, use_value):
    layer = DiffusionAttention(
        4, 4, heads, use_value=use_value, **kind
    ).double()
    x = nodes(40)
    expected, weights = all_pairs(layer, x)
    close(layer(x), expected)
    out, alpha = layer(x, return_attention_weights=True)
    close(out, expected)
    close(alpha, weights)
    close(alpha.sum(1), torch.ones(40, heads, dtype=torch.double))


@pytest.mark.parametrize('kind', KINDS)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
@settings(max_examples=15)
def test_a_graph_alone_equals_the_graph_in_a_batch(kind, sizes, seed):
    torch.manual_seed(seed)
    layer = DiffusionAttention(4, 5, heads=2, **kind).double()
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    batch = batch[torch.randperm(batch.numel())]
    x = nodes(batch.numel(), seed=seed)
    out, alpha = layer(x, batch, len(sizes), return_attention_weights=True)
    assert out.shape == (batch.numel(), 5)
    for graph in range(len(sizes)):
        mine = batch == graph
        close(out[mine], layer(x[mine]))
        inside = alpha[mine][:, mine]
        close(inside, layer.attention_weights(x[mine]))


@pytest.mark.parametrize('kind', KINDS)
def test_mean_of_values_from_one_map(kind):
    layer = DiffusionAttention(4, 6, heads=3, **kind).double()
    x = nodes(7)
    close(layer.mean_value(x), layer.project(x)[2].mean(1))


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('graphs', [None, 2])
def test_second_derivatives(kind, graphs):
    # weights that need no gradient are left out of the double backward
    layer = DiffusionAttention(3, 2, **kind).double().requires_grad_(False)
    batch = None if graphs is None else torch.tensor([0, 1, 0, 1, 1])
    x = nodes(5, 3).requires_grad_()
    torch.autograd.gradgradcheck(lambda x: layer(x, batch, graphs), (x,))


@pytest.mark.parametrize('kind', [KINDS[0], KINDS[2]])
def test_compiles_and_exports_with_a_batch(kind):
    layer = DiffusionAttention(4, 5, heads=2, **kind)
    batch = torch.tensor([0, 1, 0, 2, 2, 1, 0])
    x = nodes(7).float()
    expected = layer(x, batch, 3)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend='aot_eager')
    torch.testing.assert_close(compiled(x, batch, 3), expected)
    dynamic = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(
        layer, (x, batch, 3), dynamic_shapes=(dynamic, dynamic, None)
    )
    x, batch = nodes(9, seed=1).float(), torch.arange(9) % 3
    out = program.module()(x, batch, 3)
    torch.testing.assert_close(out, layer(x, batch, 3))


@pytest.mark.full
@pytest.mark.parametrize('kind', KINDS)
def test_inductor(kind):
    layer = DiffusionAttention(4, 5, heads=2, **kind)
    x = nodes(9).float()
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x))


def test_global_norms_are_mean_pooling_up_to_one_over_n():
    torch.manual_seed(0)
    layer = DiffusionAttention(4, 4, normalize='global').double()
    gaps = []
    for num_nodes in (100, 10_000):
        x = nodes(num_nodes)
        mean = layer.mean_value(x).mean(0)
        gaps.append(float((layer(x) - mean).abs().max()))
    assert gaps[1] < gaps[0] / 20
    layer.normalize = 'node'
    assert (layer(x) - mean).abs().max() > 20 * gaps[0]


def test_too_many_weights_are_refused(monkeypatch):
    layer = DiffusionAttention(4, 4)
    monkeypatch.setattr(layer, 'max_weights', 80)
    x = nodes(9).float()
    with pytest.raises(ValueError, match='would return 81 attention weights'):
        layer(x, return_attention_weights=True)


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        ({'kernel': 'softmax'}, "expects kernel 'simple' or 'sigmoid'"),
        ({'normalize': 'row'}, "expects normalize 'node' or 'global'"),
        ({'heads': 0}, 'heads >= 1'),
        ({'use_value': False}, 'in_channels and out_channels must be equal'),
        ({'in_channels': (4, 4)}, 'does not support bipartite'),
    ],
)
def test_wrong_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        DiffusionAttention(**{'in_channels': 4, 'out_channels': 5} | kwargs)


def test_wrong_input():
    layer = DiffusionAttention(4, 4)
    with pytest.raises(ValueError, match=r'shape \[N, 4\] \(got \[2, 3\]\)'):
        layer(torch.ones(2, 3))
    with pytest.raises(ValueError, match='does not support bipartite'):
        layer((torch.ones(2, 4), None))
    with pytest.raises(ValueError, match="'batch_size' needs 'batch'"):
        layer(torch.ones(2, 4), batch_size=2)
    lazy = DiffusionAttention(-1, 4, use_value=False)
    with pytest.raises(ValueError, match='a mean of its inputs, of 4'):
        lazy(torch.ones(2, 3))
