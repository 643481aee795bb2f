import pytest
import torch
from torch.nn import LayerNorm, MultiheadAttention

from torch_energy_graph.energies.retrieval import hopfield_retrieve
from torch_energy_graph.energies.separation import SEPARATIONS
from torch_energy_graph.nn.attention.hopfield import Hopfield

NO_NORMS = {'norm_state': False, 'norm_stored': False, 'norm_value': False}


def build(*sizes, seed=0, **config):
    torch.manual_seed(seed)
    return Hopfield(*sizes, **config).double()


def patterns(*sizes, num_states=4, num_stored=11, batch=2):
    torch.manual_seed(1)
    state, stored, value = sizes
    return (
        torch.randn(batch, num_stored, stored).double(),
        torch.randn(batch, num_states, state).double(),
        torch.randn(batch, num_stored, value).double(),
    )


def test_one_step_without_norms_is_multihead_attention():
    layer = build(8, heads=2, **NO_NORMS)
    peer = MultiheadAttention(8, 2, batch_first=True).double()
    maps = layer.maps
    with torch.no_grad():
        lins = maps.lin_state, maps.lin_stored, maps.lin_value
        peer.in_proj_weight.copy_(torch.cat([lin.weight for lin in lins]))
        peer.out_proj.weight.copy_(maps.lin_out.weight)
    stored, state, value = patterns(8, 8, 8)
    mask = torch.zeros(2, 11, dtype=torch.bool)
    mask[0, 5:] = True
    out, alpha = layer(
        (stored, state, value), mask, return_attention_weights=True
    )
    expected, weights = peer(
        state, stored, value, mask, average_attn_weights=False
    )
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(alpha, weights)


def test_steps_move_states_before_values_are_read():
    layer = build(8, heads=2, steps=3, beta=[0.5, 2.0])
    stored, state, value = patterns(8, 8, 8)
    maps = layer.maps
    query, keys, values = (
        x.transpose(1, 2)
        for x in (
            maps.states(state),
            maps.stored(stored),
            maps.values(value, None),
        )
    )
    beta = torch.tensor([[0.5], [2.0]]).double()
    query = hopfield_retrieve(query, keys, beta, steps=2)
    weights = (beta.unsqueeze(-1) * query @ keys.mT).softmax(-1)
    expected = maps.out((weights @ values).transpose(1, 2))
    torch.testing.assert_close(layer((stored, state, value)), expected)
    one = layer((stored[0], state[0], value[0]))  # without batch
    torch.testing.assert_close(one, expected[0])


def test_forms_of_input():
    layer = build(8)
    stored, state, _ = patterns(8, 8, 8)
    torch.testing.assert_close(
        layer((stored, state)), layer((stored, state, stored))
    )
    torch.testing.assert_close(layer(stored), layer([stored] * 3))


def test_masks_forbid_and_add():
    layer = build(8, heads=2, steps=2)
    stored, state, value = patterns(8, 8, 8)
    allowed = torch.tensor([0, 3, 4, 7, 9])
    few = layer((stored[:, allowed], state, value[:, allowed]))
    padding = torch.ones(2, 11, dtype=torch.bool)
    padding[:, allowed] = False
    forbidden = padding[0].expand(4, 11)
    added = torch.zeros(4, 11).double().masked_fill(forbidden, -torch.inf)
    for masks in (
        (padding, None),
        (padding.to(torch.uint8), None),
        (None, forbidden),
        (None, forbidden.int()),
        (None, forbidden.expand(2, 2, 4, 11)),
        (None, added),
        (None, added.bfloat16()),
        (padding, added),
    ):
        out, alpha = layer(
            (stored, state, value), *masks, return_attention_weights=True
        )
        torch.testing.assert_close(out, few)
        assert (alpha[..., padding[0]] == 0).all()
    one_per_head = torch.stack([forbidden, ~forbidden]).expand(2, 2, 4, 11)
    _, alpha = layer(
        (stored, state, value), None, one_per_head, return_attention_weights=1
    )
    assert (alpha[:, 0][..., padding[0]] == 0).all()
    assert (alpha[:, 1][..., ~padding[0]] == 0).all()


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_all_masked_sets_give_zeros(separation):
    layer = build(8, steps=2, separation=separation)
    stored, state, value = patterns(8, 8, 8)
    stored.requires_grad_()
    mask = torch.tensor([[False], [True]]).expand(2, 11)
    out = layer((stored, state, value), mask)
    assert (out[1] == 0).all()
    torch.testing.assert_close(out[0], layer((stored, state, value))[0])
    out.sum().backward()
    assert stored.grad.isfinite().all()
    assert layer.energy((stored, state), mask)[1] == 0
    empty = layer((stored[:, :0], state, value[:, :0]))
    assert (empty == 0).all()


def test_bias_pattern_is_one_more_pattern():
    layer = build(8, heads=2, steps=2, bias_pattern=True)
    stored, state, value = patterns(8, 8, 8)
    mask = torch.ones(2, 11, dtype=torch.bool)
    out, alpha = layer(
        (stored, state, value), mask, return_attention_weights=True
    )
    assert alpha.shape == (2, 2, 4, 12)
    torch.testing.assert_close(alpha[..., -1], torch.ones(2, 2, 4).double())
    expected = layer.maps.out(layer.bias_value.squeeze(1))
    torch.testing.assert_close(out, expected.expand_as(out))
    _, alpha = layer((stored, state, value), return_attention_weights=True)
    assert ((alpha[..., -1] > 0) & (alpha[..., -1] < 1)).all()
    layer((stored, state, value)).sum().backward()
    assert layer.bias_key.grad.abs().sum() > 0
    assert layer.bias_value.grad.abs().sum() > 0


def test_softmax1_is_one_more_zero_pattern():
    layer = build(8, heads=2, steps=2, separation='softmax1', bias=False)
    zero = build(8, heads=2, steps=2, bias_pattern=True, bias=False)
    zero.load_state_dict(layer.state_dict(), strict=False)
    torch.nn.init.zeros_(zero.bias_key)
    torch.nn.init.zeros_(zero.bias_value)
    torch.testing.assert_close(
        layer(patterns(8, 8, 8)), zero(patterns(8, 8, 8))
    )


def test_connected_values_are_maps_of_keys():
    layer = build(8, heads=2, project_value='connected', value_channels=6)
    stored, state, _ = patterns(8, 8, 8)
    maps = layer.maps
    keys = maps.stored(stored)
    out = layer((stored, state))
    _, alpha = layer((stored, state), return_attention_weights=True)
    values = maps.lin_value(keys.flatten(2)).view(2, 11, 2, 3)
    expected = torch.einsum('bhsn,bnhp->bshp', alpha, values)
    torch.testing.assert_close(out, maps.out(expected))


def test_patterns_that_are_not_mapped_are_shared_by_heads():
    free = {'project_state': False, 'project_stored': False}
    layer = build((3, 3, 8), 5, heads=2, beta=[1.0, 3.0], **free, **NO_NORMS)
    stored, state, value = patterns(3, 3, 8)
    _, alpha = layer((stored, state, value), return_attention_weights=True)
    for head, beta in enumerate((1.0, 3.0)):
        expected = (beta * state @ stored.mT).softmax(-1)
        torch.testing.assert_close(alpha[:, head], expected)


def test_options_of_norms_output_and_activation():
    plain = LayerNorm(8, eps=0.1, elementwise_affine=False)
    layer = build(
        8,
        norm_state=plain,
        norm_space=True,
        project_out=False,
        value_channels=6,
        act='relu',
    )
    stored, state, value = patterns(8, 8, 8)
    out = layer((stored, state, value))
    assert out.shape == (2, 4, 6)
    assert (out >= 0).all()
    assert (out == 0).any()
    found, maps = layer.association((stored, state)), layer.maps
    expected = maps.norm_space(maps.lin_state(plain(state)))
    torch.testing.assert_close(found.state[:, 0], expected)
    expected = maps.norm_space(maps.lin_stored(maps.norm_stored(stored)))
    torch.testing.assert_close(found.stored[:, 0], expected)


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_energy_falls_and_the_update_is_its_gradient_step(separation):
    layer = build(8, heads=2, beta='learn', separation=separation)
    stored, state, _ = patterns(8, 8, 8)
    mask = torch.zeros(2, 11, dtype=torch.bool)
    mask[1, 4:] = True
    found = layer.association((stored, state), mask)
    point = found.state.detach().requires_grad_()
    (slope,) = torch.autograd.grad(found.energy(point).sum(), point)
    torch.testing.assert_close(found.step(point), point - slope)
    energies = []
    for steps in range(1, 5):
        layer.steps = steps
        energies.append(layer.energy((stored, state), mask, reduction='state'))
    assert energies[0].shape == (2, 2, 4)
    assert (torch.stack(energies).diff(dim=0) < 1e-12).all()
    assert (energies[-1] >= 0).all()
    total = layer.energy((stored, state), mask)
    torch.testing.assert_close(total, energies[-1].sum((1, 2)))


def test_second_order_gradients():
    layer = build(4, heads=2, steps=2)
    stored, state, _ = patterns(4, 4, 4, num_stored=3)
    state.requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda state: layer((stored, state)), state, fast_mode=True
    )


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'project_value': 'static'}, "'connected'"),
        ({'hidden_channels': 7, 'heads': 2}, 'a multiple of 2'),
        ({'project_state': False, 'hidden_channels': 4}, 'not mapped'),
        ({'tol': 0.0, 'steps': 3}, 'tol > 0'),
        ({'heads': 0}, 'heads >= 1'),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        Hopfield(8, **options)


def test_wrong_inputs():
    layer = build((8, 6, 6))
    stored, state, value = patterns(8, 6, 6)
    with pytest.raises(ValueError, match=r'\[6, 8, 6\] channels'):
        layer((state, stored, value))
    with pytest.raises(ValueError, match='one projection per stored'):
        layer((stored, state, value[:, 1:]))
    with pytest.raises(ValueError, match="'padding_mask' must mark"):
        layer((stored, state), torch.zeros(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="'graph' or 'state'"):
        layer.energy((stored, state), reduction='node')
