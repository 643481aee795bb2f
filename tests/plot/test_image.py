import numpy as np
import pytest
import torch

from torch_energy_graph.nn.models.image_descent import record_descent
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)
from torch_energy_graph.plot.figures import (
    image_figures,
    new_figure,
    png_bytes,
)
from torch_energy_graph.plot.image import (
    mosaic,
    plot_completion,
    plot_contributions,
    plot_descent_energy,
    plot_images,
    plot_memories,
    plot_position_similarity,
    plot_shares,
)

pytest.importorskip('matplotlib')


@pytest.fixture
def ax():
    return new_figure(3, 3).subplots()


@pytest.fixture
def case():
    torch.manual_seed(0)
    model = ImageEnergyTransformer(
        8, 2, hidden_channels=8, heads=2, num_steps=4, num_memories=10
    ).eval()
    images = torch.rand(3, 1, 8, 8)
    mask = torch.rand(3, 16) < 0.5
    return model, images, mask, record_descent(model, images, mask)


def drawn(ax):
    return np.asarray(ax.images[0].get_array())


def test_a_mosaic_by_hand():
    images = torch.arange(1.0, 4.0).view(3, 1, 1, 1).expand(3, 1, 1, 2)
    expected = [
        [0, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 2, 2, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [0, 3, 3, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert mosaic(images, 2, fill=0.0)[0].tolist() == expected
    with pytest.raises(ValueError, match='columns >= 1'):
        mosaic(images, 0)


def test_colours_and_limits(ax):
    images = torch.rand(2, 3, 4, 4)
    assert plot_images(images, 2, ax) is ax
    picture = drawn(ax)
    assert picture.shape == (6, 11, 3)
    np.testing.assert_array_equal(
        picture[1:5, 1:5], images[0].permute(1, 2, 0)
    )
    with pytest.raises(ValueError, match='1 or 3 channels'):
        plot_images(torch.rand(2, 2, 4, 4), 2, ax)


def test_completion_shows_what_was_seen(case, ax):
    model, images, mask, record = case
    assert plot_completion(model, images, mask, record, [0, 4], ax) is ax
    picture = drawn(ax)
    assert picture.shape == (3 * 9 + 1, 4 * 9 + 1)
    seen, last, truth = (
        picture[1:9, 1:9],
        picture[1:9, 19:27],
        picture[1:9, 28:36],
    )
    hidden = model.hidden_pixels(mask, 3)[0, 0].numpy()
    assert (seen[hidden] == 0.5).all()
    np.testing.assert_array_equal(seen[~hidden], truth[~hidden])
    np.testing.assert_array_equal(truth, images[0, 0])
    out = model(images, mask)[0, 0].detach().numpy()
    np.testing.assert_allclose(last, out, atol=1e-6)
    plot_completion(model, images, mask, record, ax=ax)
    names = [text.get_text() for text in ax.texts[-7:]]
    assert names == ['seen', *(f'step {i}' for i in range(5)), 'truth']


def test_shares_and_energies(case, ax):
    *_, mask, record = case
    lines = plot_shares(record, mask, ax).lines
    attention, memories = (line.get_ydata() for line in lines)
    np.testing.assert_allclose(attention, record.shares(mask), rtol=1e-6)
    np.testing.assert_allclose(attention + memories, 1, rtol=1e-6)
    ax.clear()
    lines = plot_descent_energy(record, ax).lines
    one, two, total = (line.get_ydata() for line in lines)
    np.testing.assert_allclose(one + two, total, atol=1e-4)
    change = record.memory_energy[-1] - record.memory_energy[0]
    assert two[-1] == pytest.approx(change.mean().item(), rel=1e-4)


def test_contributions(case, ax):
    model, *_, record = case
    plot_contributions(model, record, image=1, ax=ax)
    attention, memories = record.contributions(model)
    picture = drawn(ax)
    assert picture.shape == (2 * 9 + 1, 4 * 9 + 1)
    np.testing.assert_allclose(picture[1:9, 10:18], attention[1, 1, 0])
    np.testing.assert_allclose(picture[10:18, 28:36], memories[3, 1, 0])


def test_memories_by_size(case, ax):
    model = case[0]
    with torch.no_grad():
        model.block.memory.memories[7] *= 100
    plot_memories(model, count=4, columns=2, ax=ax)
    picture = drawn(ax)
    assert picture.shape == (2 * 3 + 1, 2 * 3 + 1)
    patch = model.decoder.weight @ model.block.memory.memories[7]
    expected = (patch / patch.abs().max()).view(2, 2).detach()
    np.testing.assert_allclose(picture[1:3, 1:3], expected, atol=1e-6)


def test_positions(case, ax):
    model = case[0]
    plot_position_similarity(model, ax)
    picture = drawn(ax)
    assert picture.shape == (4 * 5 + 1, 4 * 5 + 1)
    table = model.positions().detach()
    unit = torch.nn.functional.normalize(table, dim=1)
    cosine = float(unit[6] @ unit[9])
    assert picture[1 + 5 + 2, 1 + 10 + 1] == pytest.approx(cosine, abs=1e-5)
    assert picture[1 + 5 + 1, 1 + 10 + 2] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize('cls_token', [True, False])
def test_all_figures(cls_token):
    torch.manual_seed(0)
    model = ImageEnergyTransformer(
        8, 4, 3, hidden_channels=8, num_steps=2, cls_token=cls_token
    ).eval()
    figures = image_figures(
        model, torch.rand(2, 3, 8, 8), torch.eye(4)[:2].bool()
    )
    assert list(figures) == [
        'completion',
        'descent',
        'contributions',
        'memories',
        'positions',
    ]
    png = png_bytes(figures['descent'], dpi=30)
    assert png.startswith(b'\x89PNG')
    assert png == png_bytes(figures['descent'], dpi=30)


def test_new_axes_when_none_are_given(case):
    import matplotlib.pyplot as plt

    ax = plot_shares(case[-1])
    assert ax.get_ylabel() == 'share of the update'
    plt.close(ax.figure)


def test_without_matplotlib(monkeypatch, case):
    import sys

    monkeypatch.setitem(sys.modules, 'matplotlib', None)
    monkeypatch.setitem(sys.modules, 'matplotlib.pyplot', None)
    with pytest.raises(ImportError, match=r'torch-energy-graph\[plot\]'):
        plot_shares(case[-1])
