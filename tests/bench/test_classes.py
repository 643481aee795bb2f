import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric.data import Data

from torch_energy_graph.bench import Task, get_protocol, load_task


def task_of(y, **splits):
    y = torch.as_tensor(y)
    return Task(Data(x=torch.zeros(len(y), 1), y=y), splits)


def parts_of(split):
    return torch.stack([split.train, split.val, split.test]).long()


def released_split(y, per_class, num_val, num_test):
    """The recipe of DIFFormer's released code, from the global generator."""
    train, rest = [], []
    for label in y.unique():
        nodes = torch.arange(len(y))[y == label]
        nodes = nodes[torch.randperm(len(nodes))].tolist()
        train += nodes[:per_class]
        rest += nodes[per_class:]
    rest = torch.tensor(rest)[torch.randperm(len(rest))].tolist()
    return train, rest[:num_val], rest[num_val : num_val + num_test]


def test_planetoid_random_draws_as_the_released_code():
    gen = torch.Generator().manual_seed(0)
    y = torch.randint(7, (2708,), generator=gen)
    with torch.random.fork_rng():
        torch.manual_seed(123)  # once, for all splits
        expected = [released_split(y, 20, 500, 1000) for _ in range(3)]
    for index, parts in enumerate(expected):
        split = get_protocol('planetoid-random').split(task_of(y), index)
        for name, nodes in zip(('train', 'val', 'test'), parts, strict=True):
            found = getattr(split, name).nonzero().view(-1).tolist()
            assert found == sorted(nodes)
        assert split.seed == 123
        assert split.classes == 7


def test_per_class_splits_of_cora(data_root, require_file):
    require_file(data_root / 'cora.npz')
    task = load_task('cora')
    split = get_protocol('planetoid-random').split(task, 4)
    assert split.describe(task.data.y)['train'] == {
        'nodes': 140,
        'classes': [20] * 7,
    }
    assert parts_of(split).sum(1).tolist() == [140, 500, 1000]
    public = get_protocol('public').split(task, 0)
    assert parts_of(public).sum(1).tolist() == [140, 500, 1000]
    assert torch.equal(public.train, task.data.train_mask)
    geom = get_protocol('geom-gcn').split(task, 9)
    assert torch.equal(geom.test, task.splits['geomgcn'][2][:, 9])


@given(
    st.lists(st.integers(11, 40), min_size=2, max_size=5),
    st.integers(0, 9),
    st.integers(0, 3),
)
def test_shares_hold_in_every_class(sizes, unlabelled, index):
    y = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    y = torch.cat([y, torch.full((unlabelled,), -1)])
    task = task_of(y)
    split = get_protocol('random-60-20-20').split(task, index)
    parts = parts_of(split)
    torch.testing.assert_close(parts.sum(0), (y >= 0).long())
    for label, size in enumerate(sizes):
        found = parts[:, y == label].sum(1).tolist()
        for count, share in zip(found, (0.6, 0.2, 0.2), strict=True):
            assert abs(count - share * size) <= 1
    again = get_protocol('random-60-20-20').split(task, index)
    assert split.fingerprint() == again.fingerprint()
    other = get_protocol('random-60-20-20').split(task, index + 1)
    assert split.fingerprint() != other.fingerprint()


def test_labels_for_sets():
    y = torch.arange(10).repeat(200)
    split = get_protocol('per-class-50').split(task_of(y), 0)
    assert parts_of(split).sum(1).tolist() == [500, 1000, 500]
    assert split.describe(y)['train']['classes'] == [50] * 10


def test_stored_masks_leave_unlabelled_nodes_out():
    y = torch.tensor([0, 1, 2, 0, 1, -1])
    masks = torch.zeros(3, 6, 1, dtype=torch.bool)
    masks[0, :2], masks[1, 2:4], masks[2, 4:] = True, True, True
    task = task_of(y, official=tuple(masks))
    for name in ('public', 'geom-gcn'):
        split = get_protocol(name).split(task, 0)
        assert split.test.nonzero().view(-1).tolist() == [4]
    with pytest.raises(ValueError, match=r"'polynormer'.*present: official"):
        get_protocol('polynormer').split(task, 0)
    with pytest.raises(ValueError, match=r'split below 1 .*got 1'):
        get_protocol('public').split(task, 1)
    empty = task_of(y, official=(masks[0], masks[1], masks[2] & False))
    with pytest.raises(ValueError, match='test part holds no labelled node'):
        get_protocol('public').split(empty, 0)


@pytest.mark.parametrize(
    ('y', 'message'),
    [
        ([0] * 30 + [1] * 20, r'smallest has 20\); use .random-60-20-20'),
        ([0] * 400 + [1] * 400, '500 for validation and 1000 for test'),
        ([0] * 30, 'labels from 0 to 0'),
        ([-2, 3], 'labels from -2 to 3'),
    ],
)
def test_refused_with_a_reason(y, message):
    with pytest.raises(ValueError, match=message):
        get_protocol('planetoid-random').split(task_of(y), 0)
