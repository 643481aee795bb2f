import pytest
import torch
import torch.nn.functional as F

from torch_geometric.explain import Explainer, GNNExplainer

from torch_energy_graph.nn.models import DIFFormer
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.testing import random_graph


def graph(num_nodes=10, seed=0):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, 6, generator=gen, dtype=torch.double)
    return x, random_graph(num_nodes, 30, seed).edge_index


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize('use_norm', [True, False])
@pytest.mark.parametrize('use_residual', [True, False])
@pytest.mark.parametrize('use_source', [True, False])
def test_is_a_residual_stack(use_norm, use_residual, use_source):
    model = DIFFormer(
        6,
        8,
        3,
        alpha=0.3,
        use_norm=use_norm,
        use_residual=use_residual,
        use_source=use_source,
    ).double()
    x, edges = graph()

    def norm(z, layer):
        if not use_norm:
            return z
        layer = model.norms[layer]
        return F.layer_norm(z, (8,), layer.weight, layer.bias)

    first = z = norm(model.encoder(x), 0).relu()
    for k in range(2):
        out = model.convs[k](z, edges) + (first if use_source else 0)
        z = norm(0.3 * out + 0.7 * z if use_residual else out, k + 1)
    close(model.embed(x, edges), z)
    close(model(x, edges), model.head(z))


@pytest.mark.parametrize('kernel', ['simple', 'sigmoid'])
@pytest.mark.parametrize('normalize', ['node', 'global'])
def test_a_graph_alone_equals_the_graph_in_a_batch(kernel, normalize):
    model = DIFFormer(
        6, 8, 3, heads=2, kernel=kernel, normalize=normalize
    ).double()
    sizes = [1, 10, 0, 4]
    parts = [
        graph(size, i) if size > 1 else None for i, size in enumerate(sizes)
    ]
    parts[0] = torch.randn(1, 6).double(), torch.zeros(2, 0).long()
    parts[2] = torch.zeros(0, 6).double(), torch.zeros(2, 0).long()
    batch = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    starts = [0, 1, 11, 11]
    edges = torch.cat(
        [part[1] + start for part, start in zip(parts, starts, strict=True)],
        dim=1,
    )
    out = model(torch.cat([part[0] for part in parts]), edges, None, batch, 4)
    for i, part in enumerate(parts):
        close(out[batch == i], model(*part))


def test_edges_are_sorted_once_for_all_layers(monkeypatch):
    model = DIFFormer(6, 8, 3, num_layers=4)
    x, edges = graph()
    calls = []
    build = GraphCache.from_edge_index.__func__

    def counted(cls, *args, **kwargs):
        calls.append(1)
        return build(cls, *args, **kwargs)

    monkeypatch.setattr(GraphCache, 'from_edge_index', classmethod(counted))
    model(x.float(), edges)
    assert calls == [1]


def test_one_watched_layer_changes_nothing():
    model = DIFFormer(6, 8, 3, num_layers=3).double()
    x, edges = graph()
    expected, calls = model(x, edges), []
    model.convs[1].register_message_forward_hook(lambda *_: calls.append(1))
    close(model(x, edges), expected)
    assert calls == [1]


@pytest.mark.parametrize('kernel', ['simple', 'sigmoid'])
def test_gnn_explainer(kernel):
    model = DIFFormer(6, 8, 3, kernel=kernel).eval()
    x, edges = graph()
    x = x.float()
    expected = model(x, edges)
    explainer = Explainer(
        model,
        GNNExplainer(epochs=3),
        explanation_type='model',
        node_mask_type='attributes',
        edge_mask_type='object',
        model_config={
            'mode': 'multiclass_classification',
            'task_level': 'node',
            'return_type': 'raw',
        },
    )
    explanation = explainer(x, edges, index=2)
    assert explanation.edge_mask.shape == (30,)
    assert (explanation.edge_mask > 0).any()
    torch.testing.assert_close(model(x, edges), expected)


def test_sets_without_a_graph():
    model = DIFFormer(6, 8, 3, use_graph=False).double()
    x, edges = graph()
    assert torch.equal(model(x), model(x, edges))
    with pytest.raises(ValueError, match="needs 'edge_index'"):
        DIFFormer(6, 8, 3).double()(x)


def test_training_lowers_the_loss_and_dropout_is_for_training():
    torch.manual_seed(0)
    model = DIFFormer(-1, 16, 3, dropout=0.2, heads=2)
    x, edges = graph()
    x, y = x.float(), torch.arange(10) % 3
    model(x, edges)  # the encoder gets its size
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edges), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3
    assert not torch.equal(model(x, edges), model(x, edges))
    model.eval()
    assert torch.equal(model(x, edges), model(x, edges))


def test_compiles():
    model = DIFFormer(6, 8, 3, heads=2, normalize='global')
    x, edges = graph()
    x = x.float()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend='aot_eager')
    torch.testing.assert_close(compiled(x, edges), model(x, edges))


@pytest.mark.full
def test_inductor():
    model = DIFFormer(6, 8, 3, heads=2)
    x, edges = graph()
    x = x.float()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(x, edges), model(x, edges))


def test_wrong_arguments():
    with pytest.raises(ValueError, match='num_layers >= 1'):
        DIFFormer(6, 8, 3, num_layers=0)
    with pytest.raises(ValueError, match='alpha and dropout'):
        DIFFormer(6, 8, 3, alpha=1.5)
