import pytest
import torch

from torch_energy_graph.data.patches import (
    grid_graph_to_image,
    image_to_grid_graph,
)
from torch_energy_graph.nn.grid import image_to_patches
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)

GRIDS = [
    {'connectivity': 'complete'},
    {'connectivity': 8, 'cls_token': True, 'clamp': True},
    {'connectivity': 'complete', 'self_loops': False, 'cls_token': True},
    {'connectivity': 8, 'cls_token': True},
    {'connectivity': 'radius', 'radius': 2, 'diagonal': False},
    {'connectivity': 4, 'periodic': True, 'self_loops': False},
]


def build(size=(6, 8), patch=2, channels=2, **arguments):
    torch.manual_seed(0)
    arguments = {'hidden_channels': 12, 'heads': 3, 'num_steps': 4} | arguments
    model = ImageEnergyTransformer(size, patch, channels, **arguments)
    return model.double().eval()


def draw(count=3, channels=2, seed=1):
    gen = torch.Generator().manual_seed(seed)
    images = torch.rand(count, channels, 6, 8, generator=gen).double()
    return images, torch.rand(count, 12, generator=gen) < 0.5


def graphs(images, grid, patch=2):
    keys = ('connectivity', 'radius', 'diagonal', 'self_loops', 'periodic')
    known = {k: v for k, v in grid.items() if k in (*keys, 'cls_token')}
    return image_to_grid_graph(images, patch, **known)


def of_nodes(mask, data):
    """A mask of patches as a mask of nodes."""
    if 'cls_mask' not in data:
        return mask.flatten()
    out = torch.zeros_like(data.cls_mask)
    out[~data.cls_mask] = mask.flatten()
    return out


@pytest.mark.parametrize('step_size', [0.1, 'auto'])
@pytest.mark.parametrize('grid', GRIDS)
def test_dense_and_sparse_paths_are_equal(grid, step_size):
    model = build(**grid, step_size=step_size)
    images, mask = draw()
    out, trace = model.complete(images, mask)
    data = graphs(images, grid)
    features, expected = model.complete_graph(data, of_nodes(mask, data))
    data.x = features
    torch.testing.assert_close(
        grid_graph_to_image(data), out, rtol=1e-9, atol=1e-9
    )
    for name in ('energy', 'grad_norm', 'step_size'):
        torch.testing.assert_close(
            getattr(trace, name),
            getattr(expected, name),
            rtol=1e-9,
            atol=1e-9,
        )


@pytest.mark.parametrize('grid', GRIDS)
def test_a_batch_is_the_images_alone(grid):
    model = build(**grid, step_size='auto')
    images, mask = draw()
    out, trace = model.complete(images, mask)
    for i in (2, 0):
        alone, one = model.complete(images[i : i + 1], mask[i])
        torch.testing.assert_close(alone[0], out[i], rtol=0, atol=1e-12)
        torch.testing.assert_close(one.energy[:, 0], trace.energy[:, i])
    single = graphs(images[1], grid)
    features, one = model.complete_graph(single, of_nodes(mask[1], single))
    torch.testing.assert_close(one.energy, trace.energy[:, 1])
    single.x = features
    torch.testing.assert_close(grid_graph_to_image(single), out[1])


@pytest.mark.parametrize('grid', GRIDS)
@pytest.mark.parametrize('clamp', [True, False])
def test_hidden_pixels_are_never_read(grid, clamp):
    model = build(**grid)
    images, mask = draw()
    hidden = model.hidden_pixels(mask, len(images))
    others = torch.where(hidden, torch.rand_like(images), images)
    lost = images.masked_fill(hidden, torch.nan)
    expected = model(images, mask, clamp=clamp)
    assert torch.equal(model(others, mask, clamp=clamp), expected)
    assert torch.equal(model(lost, mask, clamp=clamp), expected)
    # and a visible pixel is: the test would see a leak
    images[~hidden.expand_as(images)] += 0.1
    assert not torch.allclose(model(images, mask, clamp=clamp), expected)


def test_gradients_do_not_meet_lost_pixels():
    model = build()
    images, mask = draw()
    hidden = model.hidden_pixels(mask, len(images))
    model(images.masked_fill(hidden, torch.nan), mask).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize('clamp', [True, False])
@pytest.mark.parametrize('grid', GRIDS)
def test_the_certified_step_lowers_every_energy(grid, clamp):
    model = build(**grid, step_size='auto', num_steps=30)
    with torch.no_grad():  # far from the start, where steps are too large
        for parameter in model.block.parameters():
            parameter.mul_(3)
    images, mask = draw()
    _, trace = model.complete(images, mask, clamp=clamp)
    assert trace.energy.shape == (31, 3)
    assert trace.is_monotone(1e-12)
    assert (trace.energy[-1] < trace.energy[0]).all()


@pytest.mark.parametrize('grid', GRIDS)
@pytest.mark.parametrize('step_size', [0.1, 'learn', 'auto'])
def test_clamped_tokens_stay(grid, step_size):
    model = build(**grid, step_size=step_size)
    images, mask = draw()
    x = model.encode(images, mask)
    dynamics = model.dynamics(len(images), mask, clamp=True)
    out, _ = dynamics.run(x.flatten(0, 1))
    moved = (out.view_as(x) != x).any(-1)  # [B, N]
    if model.cls is not None:
        assert moved[:, 0].all()
        moved = moved[:, 1:]
    assert torch.equal(moved, mask)


def test_a_model_may_clamp_by_itself():
    model, clamped = build(), build(clamp=True)
    images, mask = draw()
    expected = model(images, mask, clamp=True)
    assert torch.equal(clamped(images, mask), expected)
    assert torch.equal(clamped(images, mask, clamp=False), model(images, mask))
    assert torch.equal(clamped(images), model(images))  # nothing is hidden


def test_completion_keeps_visible_pixels():
    model = build()
    images, mask = draw()
    completed, _ = model.complete(images, mask)
    hidden = model.hidden_pixels(mask, len(images)).expand_as(images)
    assert torch.equal(completed[~hidden], images[~hidden])
    assert torch.equal(completed[hidden], model(images, mask)[hidden])
    retrieved, _ = model.complete(images)
    assert torch.equal(retrieved, model(images))


def test_one_mask_serves_all_images():
    model = build()
    images, mask = draw()
    both = model(images, mask[0].expand(3, -1))
    assert torch.equal(model(images, mask[0]), both)
    pixels = image_to_patches(model.hidden_pixels(mask, 3), 2)
    assert torch.equal(pixels.any(-1), mask)
    assert torch.equal(pixels.all(-1), mask)


def test_the_first_state_is_that_of_the_formula():
    model = build(cls_token=True, positions='sinusoidal')
    images, mask = draw()
    x = model.encode(images, mask) - model.positions()
    assert torch.equal(x[:, 0], model.cls.expand(3, -1))
    tokens = model.encoder(image_to_patches(images, 2))
    torch.testing.assert_close(x[:, 1:][~mask], tokens[~mask])
    torch.testing.assert_close(
        x[:, 1:][mask], model.mask_token.expand(int(mask.sum()), -1)
    )


def test_decoding_inverts_a_linear_code():
    model = build(channels=1, hidden_channels=4, heads=1)
    with torch.no_grad():
        model.decoder.weight.copy_(torch.eye(4))
        model.decoder.bias.zero_()
    images, _ = draw(channels=1)
    patches = image_to_patches(images, 2)
    expected = image_to_patches(model.decode(patches), 2)
    torch.testing.assert_close(model.block.norm(patches), expected)


def test_checkpointed_steps_have_the_same_gradients():
    gradients = []
    for checkpoint in (True, False):
        model = build(checkpoint=checkpoint, num_steps=6)
        images, mask = draw()
        model(images, mask).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected)


def test_edges_are_kept_for_batches_of_one_size():
    model = build(connectivity=8)
    images, mask = draw()
    assert model.dynamics(3).tokens.edges.cache is (
        model.dynamics(3).tokens.edges.cache
    )
    out = model(images[:1], mask[:1])
    torch.testing.assert_close(out, model(images, mask)[:1])
    assert 'edge_index' not in model.state_dict()


def test_seeded_weights_are_drawn_anew():
    model = build(cls_token=True)
    before = [p.clone() for p in model.parameters() if p.numel() > 1]
    model.reset_parameters()
    after = [p for p in model.parameters() if p.numel() > 1]
    changed = [
        not torch.equal(a, b) for a, b in zip(before, after, strict=True)
    ]
    assert sum(changed) >= 9


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda m, x, mask: m(x[..., 1:], mask), r'\[B, 2, 6, 8\]'),
        (lambda m, x, mask: m(x, mask[:, 1:]), r'bool \[3, 12\] or \[12\]'),
        (lambda m, x, mask: m(x, mask.float()), 'of torch.float32'),
        (
            lambda m, x, mask: m.complete_graph(
                graphs(x, {'cls_token': True})
            ),
            'the model has none',
        ),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(build(), *draw())


def test_wrong_arguments():
    with pytest.raises(ValueError, match='do not tile'):
        ImageEnergyTransformer(28, 5)
    with pytest.raises(ValueError, match="'complete', 4, 8"):
        ImageEnergyTransformer(28, 4, connectivity=5)
