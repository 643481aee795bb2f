import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric.utils import contains_self_loops, is_undirected

from torch_energy_graph.nn.grid import (
    grid_edges,
    image_to_patches,
    patches_to_image,
)


def edges_by_hand(rows, cols, near, self_loops):
    places = [(r, c) for r in range(rows) for c in range(cols)]
    return {
        (i, j)
        for i, a in enumerate(places)
        for j, b in enumerate(places)
        if near(abs(a[0] - b[0]), abs(a[1] - b[1])) and (self_loops or i != j)
    }


def pairs(edge_index):
    found = [tuple(edge) for edge in edge_index.t().tolist()]
    assert len(set(found)) == len(found)
    return set(found)


def test_patches_by_hand():
    image = torch.arange(2 * 2 * 6).view(1, 2, 2, 6)
    patches = image_to_patches(image, (1, 3))
    assert patches.shape == (1, 4, 6)
    # row 0, columns 3 to 5 of both channels
    assert patches[0, 1].tolist() == [3, 4, 5, 15, 16, 17]
    assert patches[0, 2].tolist() == [6, 7, 8, 18, 19, 20]


@given(
    st.integers(0, 3),
    st.integers(1, 3),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_round_trip(size, channels, patch, grid):
    height, width = (a * b for a, b in zip(patch, grid, strict=True))
    images = torch.rand(size, channels, height, width)
    patches = image_to_patches(images, patch)
    assert patches.size(1) == grid[0] * grid[1]
    out = patches_to_image(patches, (height, width), patch)
    assert torch.equal(out, images)


NEAR = {
    'complete': lambda r, c: True,
    4: lambda r, c: r + c <= 1,
    8: lambda r, c: max(r, c) <= 1,
}


@pytest.mark.parametrize('self_loops', [True, False])
@pytest.mark.parametrize('shape', [(1, 1), (1, 4), (3, 4)])
@pytest.mark.parametrize('connectivity', NEAR)
def test_neighbours(connectivity, shape, self_loops):
    edge_index = grid_edges(*shape, connectivity, self_loops=self_loops)
    expected = edges_by_hand(*shape, NEAR[connectivity], self_loops)
    assert pairs(edge_index) == expected


@pytest.mark.parametrize('radius', [1, 2, 7])
def test_a_radius_is_a_square_or_a_diamond(radius):
    square = grid_edges(4, 5, 'radius', radius)
    near = {(r, c) for r in range(radius + 1) for c in range(radius + 1)}
    assert pairs(square) == edges_by_hand(
        4, 5, lambda r, c: (r, c) in near, True
    )
    diamond = grid_edges(4, 5, 'radius', radius, diagonal=False)
    assert pairs(diamond) == edges_by_hand(
        4, 5, lambda r, c: r + c <= radius, True
    )


def test_periodic_borders():
    edge_index = grid_edges(5, 4, 8, self_loops=False, periodic=True)
    degree = torch.bincount(edge_index[1], minlength=20)
    assert degree.tolist() == [8] * 20
    assert is_undirected(edge_index)
    # up and down, left and right are the same patch, or the patch itself
    assert pairs(grid_edges(2, 1, 4, self_loops=False, periodic=True)) == {
        (0, 1),
        (1, 0),
    }
    assert pairs(grid_edges(1, 1, 8, periodic=True)) == {(0, 0)}


@pytest.mark.parametrize('self_loops', [True, False])
def test_a_class_token_sees_and_is_seen(self_loops):
    plain = grid_edges(2, 3, 4, self_loops=self_loops)
    edge_index = grid_edges(2, 3, 4, self_loops=self_loops, cls_token=True)
    hub = {(0, i) for i in range(1, 7)} | {(i, 0) for i in range(1, 7)}
    hub |= {(0, 0)} if self_loops else set()
    assert pairs(edge_index) == pairs(plain + 1) | hub
    assert contains_self_loops(edge_index) == self_loops


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'connectivity': 6}, "'complete', 4, 8 or 'radius'"),
        ({'connectivity': 'radius'}, "'radius' >= 1"),
        ({'connectivity': 8, 'radius': 2}, "belongs to connectivity='radius'"),
        ({'periodic': True}, "'periodic' not to a complete graph"),
        ({'connectivity': 4, 'diagonal': True}, 'contradicts'),
    ],
)
def test_wrong_neighbourhoods(arguments, message):
    with pytest.raises(ValueError, match=message):
        grid_edges(2, 2, **arguments)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: image_to_patches(torch.ones(1, 28, 28), 4), 'B, c, H, W'),
        (lambda: image_to_patches(torch.ones(1, 1, 9, 8), 4), 'do not tile'),
        (lambda: image_to_patches(torch.ones(1, 1, 8, 8), 0), 'must be >= 1'),
        (lambda: patches_to_image(torch.ones(1, 3, 4), 4, 2), r'\[B, 4, c'),
    ],
)
def test_wrong_images(call, message):
    with pytest.raises(ValueError, match=message):
        call()
