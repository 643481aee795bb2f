import pytest
import torch

from torch_energy_graph.nn.models.image_descent import record_descent
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)


def build(**arguments):
    torch.manual_seed(0)
    model = ImageEnergyTransformer(
        6, 2, hidden_channels=8, heads=2, num_steps=5, **arguments
    )
    return model.double().eval()


def draw():
    gen = torch.Generator().manual_seed(1)
    images = torch.rand(3, 1, 6, 6, generator=gen).double()
    return images, torch.rand(3, 9, generator=gen) < 0.5


@pytest.mark.parametrize('clamp', [True, False])
@pytest.mark.parametrize('step_size', [0.1, 'auto'])
@pytest.mark.parametrize('connectivity', ['complete', 8])
def test_a_record_is_the_descent_of_the_model(connectivity, step_size, clamp):
    model = build(connectivity=connectivity, step_size=step_size)
    images, mask = draw()
    record = record_descent(model, images, mask, clamp)
    out, trace = model.complete(images, mask, clamp)
    energy = record.attention_energy + record.memory_energy
    torch.testing.assert_close(energy, trace.energy, rtol=1e-12, atol=1e-12)
    last = record.images(model)[-1]
    hidden = model.hidden_pixels(mask, 3)
    torch.testing.assert_close(last[hidden], out[hidden])
    steps = record.states.diff(dim=0)
    torch.testing.assert_close(steps, record.attention + record.memories)
    if clamp:
        assert not record.attention[:, ~mask].any()


def test_shares_by_hand():
    model = build()
    images, mask = draw()
    record = record_descent(model, images, mask)
    one = record.attention[2].square().sum(-1).sqrt()[mask].sum()
    two = record.memories[2].square().sum(-1).sqrt()[mask].sum()
    shares = record.shares(mask)
    assert shares.shape == (5,)
    torch.testing.assert_close(shares[2], one / (one + two))
    norms = record.step_norms(mask)
    torch.testing.assert_close(norms[0][2], one / mask.sum())
    torch.testing.assert_close(norms[1][2], two / mask.sum())
    assert record.shares(torch.zeros_like(mask)).tolist() == [0.5] * 5


@pytest.mark.parametrize(('silent', 'share'), [('memory', 1), ('q', 0)])
def test_a_part_without_weights_has_no_share(silent, share):
    model = build()
    with torch.no_grad():
        if silent == 'memory':
            model.block.memory.memories.zero_()
        else:
            model.block.attention.weight_q.zero_()
            model.block.attention.weight_k.zero_()
    shares = record_descent(model, *draw()).shares()
    torch.testing.assert_close(shares, torch.full_like(shares, share))


@pytest.mark.parametrize('cls_token', [True, False])
def test_contributions_add_up_to_the_change_of_the_image(cls_token):
    model = build(step_size=1e-6, cls_token=cls_token)
    images, mask = draw()
    record = record_descent(model, images, mask)
    attention, memories = record.contributions(model)
    assert attention.shape == (5, 3, 1, 6, 6)
    change = record.images(model).diff(dim=0)
    # but for the second order
    error = (attention + memories - change).abs().max()
    assert error < 2e-3 * change.abs().max()
    assert attention.abs().max() > 0.1 * change.abs().max()


def test_more_steps_and_none():
    model = build()
    images, mask = draw()
    longer = record_descent(model, images, mask, num_steps=9)
    assert longer.states.shape == (10, 3, 9, 8)
    record = record_descent(model, images, mask)
    torch.testing.assert_close(longer.states[:6], record.states)
    none = record_descent(model, images, mask, num_steps=0)
    assert none.attention.shape == (0, 3, 9, 8)
    torch.testing.assert_close(none.states[0], model.encode(images, mask))
