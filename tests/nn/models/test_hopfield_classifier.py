import pytest
import torch
import torch.nn.functional as F
from torch.nn import LayerNorm, Linear

from torch_energy_graph.nn.encoding.sequence_embedding import (
    SequenceEmbedding,
)
from torch_energy_graph.nn.models.hopfield_classifier import (
    PRESETS,
    HopfieldClassifier,
)

SIZES = [3, 1, 0, 40]


def bags(sizes=SIZES, channels=6, seed=0):
    """Instances in random order, and the bag of each."""
    gen = torch.Generator().manual_seed(seed)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    batch = batch[torch.randperm(batch.numel(), generator=gen)]
    x = torch.randn(batch.numel(), channels, generator=gen)
    return x.double(), batch


def build(seed=0, **kwargs):
    torch.manual_seed(seed)
    kwargs.setdefault('association_dropout', 0.0)
    return HopfieldClassifier(6, 8, 3, heads=2, **kwargs).double()


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize('num_layers', [0, 2])
@pytest.mark.parametrize('num_states', [1, 3])
def test_is_embedding_pooling_head(num_layers, num_states):
    model = build(num_layers=num_layers, num_states=num_states, steps=2)
    x, batch = bags()
    z = x
    for lin in model.mlp.lins if num_layers else ():
        z = F.linear(z, lin.weight, lin.bias).relu()
    close(model.embed(x), z)
    pooled, weights = model.pool(
        z, batch, dim_size=4, return_attention_weights=True
    )
    out, found = model(x, batch, 4, return_attention_weights=True)
    close(out, F.linear(pooled, model.head.weight, model.head.bias))
    close(out[2], model.head.bias)  # an empty bag
    close(found, weights)
    close(model(x, batch), out)
    close(model.energy(x, batch), model.pool.energy(z, batch, dim_size=4))


@pytest.mark.parametrize('top_k', [None, 2, 0.3])
def test_bags_and_the_order_of_instances_do_not_matter(top_k):
    model = build(top_k=top_k, steps=2)
    x, batch = bags()
    out = model(x, batch, 4)
    perm = torch.randperm(batch.numel())
    close(model(x[perm], batch[perm], 4), out)
    for number in (0, 1, 3):
        close(model(x[batch == number]), out[number : number + 1])


@pytest.mark.parametrize(
    ('top_k', 'counts'), [(2, [2, 1, 0, 2]), (0.3, [1, 1, 0, 12])]
)
@pytest.mark.parametrize('chunk_size', [5, 100])
def test_the_strongest_take_part(top_k, counts, chunk_size):
    model = build(top_k=top_k, num_states=2, num_layers=2)
    model.chunk_size = chunk_size
    x, batch = bags()
    out, weights = model(x, batch, 4, return_attention_weights=True)
    kept = (weights > 0).any(-1).any(-1)
    assert batch[kept].bincount(minlength=4).tolist() == counts
    every = build(num_states=2, num_layers=2)  # the same weights
    _, first = every(x, batch, 4, return_attention_weights=True)
    best = first.flatten(1).amax(1)
    for number in (0, 3):
        inside = batch == number
        assert best[inside & kept].min() > best[inside & ~kept].max()
    close(out, every(x[kept], batch[kept], 4))
    gradient, expected = (
        torch.autograd.grad(o.square().sum(), m.mlp.lins[0].weight)[0]
        for m, o in ((model, out), (every, every(x[kept], batch[kept], 4)))
    )
    close(gradient, expected)


def test_only_those_kept_are_embedded_with_gradients():
    seen = []

    class Spy(torch.nn.Module):
        def forward(self, x):
            seen.append((x.size(0), torch.is_grad_enabled()))
            return x

    model = build(embedding=Spy(), top_k=0.1)
    model.chunk_size = 20
    x, batch = bags()
    model(x, batch)
    assert seen == [(20, False), (20, False), (4, False), (6, True)]


def test_instance_dropout_leaves_one_of_every_bag():
    model = build(instance_dropout=0.8)
    x, batch = bags([1, 1, 2, 500])
    torch.manual_seed(0)
    for _ in range(20):
        _, weights = model(x, batch, 4, return_attention_weights=True)
        kept = (weights > 0).any(-1).any(-1)
        counts = batch[kept].bincount(minlength=4)
        assert counts[:2].tolist() == [1, 1]
        assert 1 <= counts[2] <= 2
        assert 60 < counts[3] < 140  # 100 of 500
    model.eval()
    _, weights = model(x, batch, 4, return_attention_weights=True)
    assert (weights > 0).all()


def test_dropout_then_top_k_name_the_instances_of_the_input():
    model = build(instance_dropout=0.5, top_k=3)
    x, batch = bags([30, 30])
    torch.manual_seed(0)
    out, weights = model(x, batch, 2, return_attention_weights=True)
    kept = (weights > 0).any(-1).any(-1)
    assert batch[kept].bincount().tolist() == [3, 3]
    close(out, build()(x[kept], batch[kept], 2))


def test_dropout_is_for_training():
    model = build(dropout=0.5, association_dropout=0.5)
    x, batch = bags()
    assert not torch.equal(model(x, batch), model(x, batch))
    model.eval()
    close(model(x, batch), build().eval()(x, batch))


def test_sequences():
    torch.manual_seed(0)
    model = HopfieldClassifier.preset(
        'repertoire', 16, embedding=SequenceEmbedding(16)
    ).eval()
    symbols = torch.randint(20, (50, 12))
    symbols[:, 9:] = -1
    batch = torch.arange(50) % 3
    out, weights = model(symbols, batch, return_attention_weights=True)
    assert out.shape == (3, 2)
    kept = (weights > 0).any(-1).any(-1)
    assert batch[kept].bincount().tolist() == [2, 2, 2]
    wider = F.pad(symbols, (0, 5), value=-1)
    torch.testing.assert_close(model(wider, batch), out)


def test_presets():
    model = HopfieldClassifier.preset('bit_pattern', 8, dropout=0.1)
    assert (model.dropout, model.pool.steps, model.pool.heads) == (0.1, 4, 8)
    assert model.pool.maps.beta() == 0.25
    assert HopfieldClassifier.preset('bit_pattern', 8, steps=1).pool.steps == 1
    assert PRESETS['bit_pattern']['steps'] == 4  # as it was
    with pytest.raises(ValueError, match=r"bit_pattern.*got 'best'"):
        HopfieldClassifier.preset('best', 8)


def test_reset_draws_all_weights_anew():
    model = build(embedding=Linear(6, 6).double(), num_layers=2)
    before = [p.clone() for p in model.parameters()]
    model.reset_parameters()
    norms = {
        id(p)
        for m in model.modules()
        if isinstance(m, LayerNorm)
        for p in m.parameters()
    }
    for new, old in zip(model.parameters(), before, strict=True):
        constant = id(new) in norms or bool((old == 0).all())
        assert constant or not torch.equal(new, old)


def test_compiles():
    model = build().float()
    x, batch = bags()
    x = x.float()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend='aot_eager')
    torch.testing.assert_close(compiled(x, batch, 4), model(x, batch, 4))


def test_it_finds_the_signal():
    """The mean over 50 instances hides what one of them says."""
    torch.manual_seed(0)
    x = torch.randn(60 * 50, 6)
    batch = torch.arange(60).repeat_interleave(50)
    y = torch.arange(60) % 2
    x[torch.arange(60) * 50 + 7] = 3.0 * y.view(-1, 1).float()
    model = HopfieldClassifier(6, 16, heads=2, association_dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(x, batch, 60), y).backward()
        optimizer.step()
    out, weights = model(x, batch, 60, return_attention_weights=True)
    assert (out.argmax(1) == y).all()
    largest = weights.amax((1, 2)).view(60, 50)[y == 1].argmax(1)
    assert (largest == 7).double().mean() > 0.9


def test_wrong_arguments():
    x, batch = bags()
    with pytest.raises(ValueError, match="'batch' must name"):
        build()(x, batch[1:])
    with pytest.raises(ValueError, match='larger batch_size'):
        build()(x, batch, 3)
    with pytest.raises(ValueError, match='instance_dropout in'):
        build(instance_dropout=1.0)
    with pytest.raises(ValueError, match='top_k'):
        build(top_k=1.5)
