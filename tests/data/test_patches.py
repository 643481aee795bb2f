import pytest
import torch

from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from torch_energy_graph.data.patches import (
    grid_graph_to_image,
    image_to_grid_graph,
)
from torch_energy_graph.transforms.to_grid_graph import ToGridGraph

VARIANTS = [
    {},
    {'connectivity': 8, 'self_loops': False},
    {'connectivity': 'radius', 'radius': 2, 'periodic': True},
    {'connectivity': 4, 'cls_token': True},
    {'cls_token': True, 'pad_value': 7},
]


@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize('dtype', [torch.uint8, torch.double])
@pytest.mark.parametrize('shape', [(1, 8, 8), (3, 4, 12)])
def test_round_trip_is_exact(shape, dtype, variant):
    images = (255 * torch.rand(5, *shape)).to(dtype)
    batch = image_to_grid_graph(images, (4, 2), **variant)
    assert isinstance(batch, Batch)
    out = grid_graph_to_image(batch)
    assert out.dtype == dtype
    assert torch.equal(out, images)
    one = image_to_grid_graph(images[2], (4, 2), **variant)
    assert torch.equal(grid_graph_to_image(one), images[2])


@pytest.mark.parametrize('variant', VARIANTS)
def test_a_batch_is_the_graphs_alone(variant):
    images = torch.rand(4, 2, 8, 6)
    batch = image_to_grid_graph(images, 2, **variant)
    alone = [image_to_grid_graph(image, 2, **variant) for image in images]
    joined = Batch.from_data_list(alone)
    assert set(batch.keys()) == set(joined.keys())
    for key in joined.keys():  # noqa: SIM118
        assert torch.equal(batch[key], joined[key]), key
    assert batch.num_graphs == 4
    for found, expected in zip(batch.to_data_list(), alone, strict=True):
        assert set(found.keys()) == set(expected.keys())
        for key in expected.keys():  # noqa: SIM118
            assert torch.equal(found[key], expected[key]), key


def test_positions_and_features():
    image = torch.arange(24.0).view(1, 4, 6)
    data = image_to_grid_graph(image, (2, 3), connectivity=4)
    assert data.pos.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert data.x[3].tolist() == [15, 16, 17, 21, 22, 23]
    data.validate()


def test_padding_is_asked_for_and_cut_off():
    images = torch.rand(2, 1, 5, 7)
    with pytest.raises(ValueError, match='do not tile an image of 5 x 7'):
        image_to_grid_graph(images, 4)
    batch = image_to_grid_graph(images, 4, pad_value=-1.0)
    assert batch.x.shape == (2 * 4, 16)
    last = batch.x[3].view(4, 4)  # one row and three columns are real
    assert (last[1:] == -1).all()
    assert (last[:, 3] == -1).all()
    assert torch.equal(last[0, :3], images[0, 0, 4, 4:])
    assert torch.equal(grid_graph_to_image(batch), images)


def test_a_transform_in_a_loader():
    images = torch.rand(6, 3, 8, 8)
    transform = ToGridGraph(4, connectivity=8, cls_token=True)
    assert repr(transform) == 'ToGridGraph(4, connectivity=8)'
    graphs = [transform(image) for image in images]
    assert graphs[0].num_nodes == 5
    assert graphs[0].cls_mask.tolist() == [True, *4 * [False]]
    first, _ = DataLoader(graphs, batch_size=3)
    assert torch.equal(grid_graph_to_image(first), images[:3])


def test_many_images_in_one_call():
    images = torch.zeros(60_000, 1, 8, 8, dtype=torch.uint8)
    images[-1, 0, 7, 7] = 3
    batch = image_to_grid_graph(images, 4, connectivity=4)
    assert batch.num_nodes == 240_000
    assert batch.x[-1, -1] == 3
    assert batch.edge_index.max() == 239_999


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda d: d.update({'x': d.x[:-1]}), 'patches for each of 2 images'),
        (
            lambda d: delattr(d, 'image_size'),
            "'image_to_grid_graph' makes it",
        ),
        (lambda d: d.image_size[1].fill_(8), 'images of one size'),
    ],
)
def test_graphs_of_no_image(change, message):
    batch = image_to_grid_graph(torch.rand(2, 1, 4, 4), 2)
    change(batch)
    with pytest.raises(ValueError, match=message):
        grid_graph_to_image(batch)


def test_images_need_channels():
    with pytest.raises(ValueError, match=r'images\.unsqueeze\(1\)'):
        image_to_grid_graph(torch.rand(28, 28), 4)
