import pytest
import torch

from torch_geometric.nn import GCNConv

from torch_energy_graph.nn import DIFFormerConv
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.testing import random_graph, standard_graphs


def graph(seed=0, **kwargs):
    gen = torch.Generator().manual_seed(seed)
    data = random_graph(9, 30, seed, num_isolated=2, **kwargs)
    x = torch.randn(9, 4, generator=gen, dtype=torch.double)
    weight = torch.rand(30, generator=gen, dtype=torch.double)
    return x, data.edge_index, weight


def gcn(layer, x, edge_index, edge_weight):
    """PyG's propagation of the values."""
    width = layer.out_channels
    conv = GCNConv(
        width, width, bias=False, add_self_loops=layer.add_self_loops
    ).double()
    torch.nn.init.eye_(conv.lin.weight)
    values = layer.attention.project(x)[2].mean(1)
    return conv(values, edge_index, edge_weight)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-12)


def test_repr_and_contract():
    layer = DIFFormerConv(4, 6, heads=2)
    assert str(layer) == (
        "DIFFormerConv(4, 6, heads=2, kernel='simple', normalize='node')"
    )
    assert layer.energy_contract is None


@pytest.mark.parametrize('heads', [1, 2])
@pytest.mark.parametrize('loops', [True, False])
@pytest.mark.parametrize('weighted', [True, False])
@pytest.mark.parametrize('kernel', ['simple', 'sigmoid'])
def test_is_attention_plus_gcn(heads, loops, weighted, kernel):
    layer = DIFFormerConv(4, 5, heads, kernel, add_self_loops=loops).double()
    # PyG keeps one of parallel loops, so there is one at most
    x, edges, weight = graph(multi_edges=False)
    weight = weight if weighted else None
    close(
        layer(x, edges, weight),
        layer.attention(x) + gcn(layer, x, edges, weight),
    )
    layer.graph_weight = 0.3
    close(
        layer(x, edges, weight),
        0.7 * layer.attention(x) + 0.3 * gcn(layer, x, edges, weight),
    )


@pytest.mark.parametrize('name', standard_graphs())
@pytest.mark.parametrize('loops', [True, False])
@pytest.mark.parametrize('weighted_degree', [True, False])
def test_fused_and_propagate_paths_are_equal(name, loops, weighted_degree):
    data = standard_graphs()[name]
    layer = DIFFormerConv(
        4, 5, add_self_loops=loops, weighted_degree=weighted_degree
    ).double()
    x = torch.randn(data.num_nodes, 4, dtype=torch.double)
    weight = torch.rand(data.num_edges, dtype=torch.double) + 0.1
    for edge_weight in (None, weight):
        fused = layer(x, data.edge_index, edge_weight)
        calls = []
        handle = layer.register_propagate_forward_hook(
            lambda *_, calls=calls: calls.append(1)  # somebody looks inside
        )
        close(layer(x, data.edge_index, edge_weight), fused)
        handle.remove()
        assert calls == [1]


def test_parallel_edges_count_as_often_as_they_stand():
    layer = DIFFormerConv(4, 5, add_self_loops=False).double()
    x, edges, _ = graph()
    pairs, counts = edges.unique(dim=1, return_counts=True)
    assert counts.max() > 1
    close(layer(x, edges), layer(x, pairs, counts.double()))


@pytest.mark.parametrize('weighted_degree', [True, False])
def test_gradients_of_edge_weights(weighted_degree):
    layer = DIFFormerConv(4, 2, weighted_degree=weighted_degree).double()
    layer.requires_grad_(False)
    x, edges, weight = graph()
    weight = (weight + 0.1).requires_grad_()

    def form(x, weight):
        return layer(x, edges, weight)

    inputs = x.requires_grad_(), weight
    torch.autograd.gradcheck(form, inputs, fast_mode=True)
    torch.autograd.gradgradcheck(form, inputs, fast_mode=True)


@pytest.mark.parametrize('kernel', ['simple', 'sigmoid'])
def test_a_graph_alone_equals_the_graph_in_a_batch(kernel):
    layer = DIFFormerConv(4, 5, heads=2, kernel=kernel).double()
    parts = [graph(seed) for seed in range(3)]
    x = torch.cat([part[0] for part in parts])
    edges = torch.cat([p[1] + 9 * i for i, p in enumerate(parts)], dim=1)
    weight = torch.cat([part[2] for part in parts])
    perm = torch.randperm(27)
    batch = (torch.arange(27) // 9)[perm]
    out, alpha = layer(
        x[perm],
        perm.argsort()[edges],
        weight,
        batch,
        return_attention_weights=True,
    )
    for i, part in enumerate(parts):
        expected, weights = layer(*part, return_attention_weights=True)
        order = perm[batch == i] - 9 * i
        close(out[batch == i], expected[order])
        inside = alpha[batch == i][:, batch == i]
        close(inside, weights[order][:, order])


def test_cached_graph():
    layer = DIFFormerConv(4, 5, cached=True)
    x, edges, weight = graph()
    x, weight = x.float(), weight.float()
    out = layer(x, edges, weight)
    # the edges of the first call are used
    assert torch.equal(layer(x, edges[:, :3]), out)
    torch.testing.assert_close(
        layer.double()(x.double(), edges, weight.double()).float(), out
    )
    with pytest.raises(ValueError, match='was built for 9 sources'):
        layer(x[:5].double(), edges)
    layer.reset_parameters()
    close(
        layer(x[:5].double(), edges[:, :0]),
        layer(x[:5].double(), edges),
    )
    with pytest.raises(ValueError, match='only if they need no gradient'):
        DIFFormerConv(4, 5, cached=True)(x, edges, weight.requires_grad_())


def test_prepared_edges_serve_several_layers():
    x, edges, weight = graph()
    first, second = (DIFFormerConv(4, 4).double() for _ in range(2))
    prepared = first.prepare(x, edges, weight)
    close(second(x, prepared), second(x, edges, weight))


def test_values_of_a_sparse_matrix_are_edge_weights():
    layer = DIFFormerConv(4, 5).double()
    x, edges, weight = graph(multi_edges=False)
    indices = edges.flip(0)  # rows are targets
    matrix = torch.sparse_coo_tensor(indices, weight, (9, 9)).coalesce()
    close(layer(x, matrix), layer(x, edges, weight))
    close(layer(x, matrix.to_sparse_csr()), layer(x, edges, weight))
    cache = GraphCache.from_edge_index(edges, 9)
    close(layer(x, cache, weight), layer(x, edges, weight))


def test_without_graph():
    layer = DIFFormerConv(4, 5, use_graph=False)
    x, edges, _ = graph()
    x = x.float()
    assert torch.equal(layer(x), layer.attention(x))
    assert torch.equal(layer(x, edges), layer(x))


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_half_types(dtype):
    layer = DIFFormerConv(4, 5, heads=2).to(dtype)
    x, edges, weight = graph()
    x, weight = x.to(dtype), weight.to(dtype)
    out = layer(x, edges, weight)
    assert out.dtype == dtype
    exact = layer.double()(x.double(), edges, weight.double())
    eps = torch.finfo(dtype).eps
    assert (out - exact).abs().max() < 3 * eps * exact.abs().max()


@pytest.mark.full
def test_inductor():
    layer = DIFFormerConv(4, 5, heads=2)
    x, edges, weight = graph()
    args = x.float(), edges, weight.float()
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True)
    torch.testing.assert_close(compiled(*args), layer(*args))


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        ({'graph_weight': 1.5}, r'graph_weight in \[0, 1\]'),
        ({'graph_weight': 0.5, 'use_graph': False}, 'has no graph_weight'),
        ({'aggr': 'mean'}, 'sums from sources to targets'),
        ({'flow': 'target_to_source'}, 'flip the edges'),
    ],
)
def test_wrong_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        DIFFormerConv(4, 5, **kwargs)


def test_wrong_input():
    layer = DIFFormerConv(4, 5).double()
    x, edges, weight = graph()
    with pytest.raises(ValueError, match="needs 'edge_index'"):
        layer(x)
    with pytest.raises(ValueError, match='one weight per edge'):
        layer(x, edges, weight[:3])
    with pytest.raises(ValueError, match=r'node \d sum to -'):
        layer(x, edges, -weight)
    with pytest.raises(IndexError, match='there are only 5'):
        layer(x[:5], edges)
