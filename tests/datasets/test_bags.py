from dataclasses import replace

import numpy as np
import pytest
import torch

from torch_geometric.data import Batch, Data

from torch_energy_graph.datasets.bags import BAG_SETS, Bags, load_bags


def small(**changes):
    """Bags of 2, 0, 3 and 1 instances."""
    parts = {
        'x': torch.arange(12.0).view(6, 2),
        'ptr': torch.tensor([0, 2, 2, 5, 6]),
        'y': torch.tensor([1, 0, 1, 0]),
    }
    return Bags(**{**parts, **changes})


def test_bags_and_their_instances():
    bags = small()
    assert len(bags) == 4
    assert bags.batch.tolist() == [0, 0, 2, 2, 2, 3]
    assert 'bags=4, instances=[6, 2]' in repr(bags)


def test_selected_bags_stand_in_the_order_of_their_numbers():
    part = small().select(torch.tensor([3, 1, 2, 3]))
    assert part.ptr.tolist() == [0, 1, 1, 4, 5]
    assert part.y.tolist() == [0, 0, 1, 0]
    assert part.x[:, 0].tolist() == [10.0, 4.0, 6.0, 8.0, 10.0]
    none = small().select(torch.tensor([], dtype=torch.long))
    assert (len(none), none.x.size(0)) == (0, 0)


def test_graphs_of_a_batch_are_bags():
    graphs = [Data(x=torch.randn(n, 3), y=n % 2) for n in (2, 5, 1)]
    batch = Batch.from_data_list(graphs)
    bags = Bags(batch.x, batch.ptr, batch.y)
    assert torch.equal(bags.batch, batch.batch)
    assert torch.equal(bags.select(torch.tensor([1])).x, graphs[1].x)


def test_scaling_reads_the_training_bags_only():
    bags, train = small(), torch.tensor([0, 3])
    scaled = bags.scaled_by(train)
    seen = scaled.select(train).x
    assert seen.dtype == torch.float32
    torch.testing.assert_close(seen.mean(0), torch.zeros(2))
    torch.testing.assert_close(seen.std(0, correction=0), torch.ones(2))
    x = bags.x.clone()
    x[3] = 1e6  # of bag 2
    other = replace(bags, x=x).scaled_by(train)
    assert torch.equal(other.select(train).x, seen)


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'ptr': torch.tensor([0, 2, 2, 5])}, 'rise from 0 to 6'),
        ({'ptr': torch.tensor([0, 4, 2, 5, 6])}, 'rise from 0 to 6'),
        ({'y': torch.tensor([1, 0, 1])}, r'shape \[4\].*got \[3\]'),
        ({'y': torch.ones(4)}, 'integers'),
        ({'y': torch.tensor([1, 0, -1, 0])}, 'y >= 0'),
        ({'x': torch.full((6, 2), torch.nan)}, '12 values that are not'),
    ],
)
def test_bad_bags(changes, message):
    with pytest.raises(ValueError, match=message):
        small(**changes)


def test_a_file_of_ones_own(place, folder):
    arrays = {
        'x': np.eye(3),
        'bag_ptr': np.array([0, 1, 3], np.int32),
        'y': np.array([0, 1]),
    }
    path = place('mil/mine.npz', arrays)
    bags = load_bags('mine', folder)
    assert bags.path == path
    assert bags.x.dtype == torch.float32
    assert bags.batch.tolist() == [0, 1, 1]


def test_bad_files(place, folder):
    with pytest.raises(FileNotFoundError, match=r"'mine'.*mil/mine\.npz"):
        load_bags('mine', folder)
    place('few.npz', {'x': np.eye(3), 'y': np.array([0])})
    with pytest.raises(ValueError, match=r"few\.npz'.*arrays bag_ptr"):
        load_bags('few', folder)
    place('torn.npz', b'PK')
    with pytest.raises(ValueError, match=r'torn\.npz'):
        load_bags('torn', folder)
    flat = {'x': np.ones(3), 'bag_ptr': np.array([0, 3]), 'y': np.array([0])}
    place('flat.npz', flat)
    with pytest.raises(ValueError, match=r'\[N, F\]'):
        load_bags('flat', folder)


@pytest.mark.parametrize(
    ('name', 'counts', 'shape'),
    [
        ('musk1', [45, 47], (476, 166)),
        ('musk2', [63, 39], (6598, 166)),
        ('elephant', [100, 100], (1391, 230)),
        ('tiger', [100, 100], (1220, 230)),
    ],
)
def test_public_sets(name, counts, shape, data_root, require_file):
    require_file(data_root / 'mil' / f'{name}.npz')
    bags = load_bags(name, data_root)
    assert name in BAG_SETS
    assert bags.y.bincount().tolist() == counts
    assert tuple(bags.x.shape) == shape
    assert bags.ptr.diff().min() >= 1
