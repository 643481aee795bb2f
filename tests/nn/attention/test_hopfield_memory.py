from functools import partial

import pytest
import torch

from torch_energy_graph.energies.retrieval import hopfield_retrieve
from torch_energy_graph.nn.attention.hopfield_memory import HopfieldMemory
from torch_energy_graph.testing import conv_checks


def build(**config):
    torch.manual_seed(0)
    return HopfieldMemory(8, **config).double()


def test_equals_the_definition():
    layer = build(
        out_channels=5,
        num_memories=7,
        heads=2,
        steps=3,
        target_channels=4,
        beta=[0.5, 2.0],
    )
    x, maps = torch.randn(3, 6, 8).double(), layer.maps
    out, alpha = layer(x, return_attention_weights=True)
    assert alpha.shape == (3, 6, 2, 7)
    torch.testing.assert_close(alpha.sum(-1), torch.ones(3, 6, 2).double())
    heads = []
    keys = maps.stored(layer.memories)
    values = maps.values(layer.targets, keys)
    for head, beta in enumerate((0.5, 2.0)):
        state = maps.states(x)[:, :, head]
        state = hopfield_retrieve(state, keys[:, head], beta, steps=2)
        weights = (beta * state @ keys[:, head].T).softmax(-1)
        heads.append(weights @ values[:, head])
    expected = maps.out(torch.stack(heads, dim=-2))
    torch.testing.assert_close(out, expected)


def test_from_data_returns_weighted_labels():
    torch.manual_seed(0)
    x, y = torch.randn(30, 5), torch.arange(30) % 3
    layer = HopfieldMemory.from_data(x, y, beta=50.0)
    assert list(layer.parameters()) == []
    out = layer(x + 0.01 * torch.randn(30, 5))
    assert out.shape == (30, 3)
    torch.testing.assert_close(out.sum(1), torch.ones(30))
    similar = (50.0 * x @ x.t()).softmax(1) @ torch.eye(3)[y]
    torch.testing.assert_close(layer(x), similar)
    soft = HopfieldMemory.from_data(x, torch.randn(30), project=True)
    assert soft.targets.shape == (30, 1)
    assert not any('memories' in name for name, _ in soft.named_parameters())
    before = soft.memories.clone()
    soft.reset_parameters()
    assert before.equal(soft.memories)  # given ones stay
    assert soft(x).shape == (30, 5)


def test_retrieves_a_stored_pattern():
    torch.manual_seed(0)
    x = torch.randn(20, 16).sign()
    layer = HopfieldMemory.from_data(x, x, beta=4.0, steps=3)
    noisy = x.clone()
    noisy[:, :3] *= -1  # three of 16 bits
    assert layer(noisy).sign().equal(x)


def test_energy_falls():
    layer = build(heads=2)
    x, energies = torch.randn(9, 8).double(), []
    for steps in range(1, 6):
        layer.steps = steps
        energies.append(layer.energy(x, reduction='node'))
    falls = torch.stack(energies).diff(dim=0)
    assert (falls < 1e-12).all()
    assert (falls[0] < -1e-9).all()
    assert (energies[-1] >= 0).all()
    batch = torch.tensor([1, 0, 1] * 3)
    graphs = layer.energy(x, batch, batch_size=3)
    expected = [energies[-1][batch == number].sum() for number in range(3)]
    torch.testing.assert_close(graphs, torch.stack(expected))


def test_what_is_trained():
    names = {name for name, _ in build().named_parameters()}
    assert 'memories' in names
    frozen = build(target_channels=3, trainable=False, train_targets=False)
    assert not frozen.memories.requires_grad
    assert not frozen.targets.requires_grad
    given = torch.randn(6, 8)
    layer = build(memories=given, targets=torch.randn(6, 2))
    names = {name for name, _ in layer.named_parameters()}
    assert not names & {'memories', 'targets'}
    torch.testing.assert_close(layer.memories, given.double())


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'num_memories': 0}, 'num_memories >= 1'),
        ({'memories': torch.zeros(3, 7)}, r'memories of shape \[3, 8\]'),
        (
            {'memories': torch.zeros(3, 8), 'targets': torch.zeros(4, 2)},
            r'targets of shape \[3, T\]',
        ),
        ({'steps': 0}, 'steps >= 1'),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        HopfieldMemory(8, **options)


def test_wrong_inputs():
    with pytest.raises(ValueError, match=r'shape \[\*, 8\]'):
        HopfieldMemory(8)(torch.randn(3, 7))


@pytest.mark.parametrize(
    'check',
    [pytest.param(check, id=name) for name, check in conv_checks('node')],
)
def test_drop_in(check):
    check(partial(HopfieldMemory, heads=2, steps=2, beta='learn'))
