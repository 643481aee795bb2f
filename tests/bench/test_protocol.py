import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric.data import Data

from torch_energy_graph.bench import (
    ConfigError,
    Task,
    get_protocol,
    load_task,
)


def task_of(y, **splits):
    y = torch.as_tensor(y)
    return Task(Data(x=torch.zeros(len(y), 1), y=y), splits)


@given(
    normal=st.integers(40, 400),
    anomalous=st.integers(20, 60),
    unlabelled=st.integers(0, 30),
    index=st.integers(0, 9),
)
def test_stratified_splits(normal, anomalous, unlabelled, index):
    y = torch.tensor([0] * normal + [1] * anomalous + [-1] * unlabelled)
    split = get_protocol('et-40pct').split(task_of(y), index)
    parts = torch.stack([split.train, split.val, split.test]).long()
    # Every labelled node is in exactly one part, no other one in any.
    torch.testing.assert_close(parts.sum(0), (y >= 0).long())
    assert split.seed == 3407 + 10 * index
    labelled = normal + anomalous
    sizes = parts.sum(1).tolist()
    for size, share in zip(sizes, (0.4, 0.2, 0.4), strict=True):
        assert abs(size - share * labelled) <= 2
    for part, size in zip(parts.bool(), sizes, strict=True):
        assert abs((y[part] == 1).sum() - size * anomalous / labelled) <= 2


def test_splits_are_the_same_every_time_and_differ_by_index():
    y = torch.tensor([0] * 80 + [1] * 20)
    protocol = get_protocol('et-40pct')
    first, again, second = (
        protocol.split(task_of(y), i).train for i in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_one_percent_of_training_nodes():
    y = torch.tensor([0] * 900 + [1] * 100)
    split = get_protocol('et-1pct').split(task_of(y), 0)
    assert split.describe(y) == {
        'seed': 3407,
        'masks': split.fingerprint(),
        'train': {'nodes': 10, 'anomalies': 1},
        'val': {'nodes': 330, 'anomalies': 33},
        'test': {'nodes': 660, 'anomalies': 66},
    }


@pytest.mark.parametrize(
    ('normal', 'anomalous', 'message'),
    [
        (990, 10, 'train part of 10 nodes holds no anomalous node'),
        (50, 50, 'cannot split 100 labelled nodes with 50 anomalies'),
        (100, 0, 'holds no anomalous node'),
        (100, 1, 'cannot split 101 labelled nodes with 1 anomalies'),
        (0, 0, 'cannot split 0 labelled nodes'),
    ],
)
def test_refused_with_a_reason(normal, anomalous, message):
    y = torch.tensor([0] * normal + [1] * anomalous, dtype=torch.long)
    with pytest.raises(ValueError, match=message):
        get_protocol('et-1pct').split(task_of(y), 0)


def test_several_classes_are_refused():
    with pytest.raises(ValueError, match=r'got \[0, 1, 2\]'):
        get_protocol('et-40pct').split(task_of([0, 1, 2]), 0)


def test_official_masks_leave_unlabelled_nodes_out():
    y = torch.tensor([0, 1, 0, 1, 0, 1, -1])
    train, val, test = torch.zeros(3, 7, 2, dtype=torch.bool)
    train[:2, 1], val[2:4, 1], test[4:, 1] = True, True, True
    task = task_of(y, official=(train, val, test))
    split = get_protocol('official').split(task, 1)
    assert split.train.nonzero().flatten().tolist() == [0, 1]
    assert split.val.nonzero().flatten().tolist() == [2, 3]
    assert split.test.nonzero().flatten().tolist() == [4, 5]
    assert split.seed is None
    with pytest.raises(ValueError, match='holds no anomalous'):
        get_protocol('official').split(task, 0)
    with pytest.raises(ValueError, match=r'split below 2 .*got 2'):
        get_protocol('official').split(task, 2)


def test_official_masks_that_do_not_exist():
    task = task_of([0, 1], geomgcn=(), gadbench=())
    with pytest.raises(
        ValueError, match='families present: gadbench, geomgcn'
    ):
        get_protocol('official').split(task, 0)
    with pytest.raises(ValueError, match='families present: none'):
        get_protocol('official').split(task_of([0, 1]), 0)


def test_unknown_protocol():
    with pytest.raises(ConfigError, match="did you mean 'et-40pct'"):
        get_protocol('et-40')


def test_fingerprints_tell_splits_apart():
    y = torch.tensor([0] * 80 + [1] * 20)
    protocol = get_protocol('et-40pct')
    first, again, second = (
        protocol.split(task_of(y), i).fingerprint() for i in (0, 0, 1)
    )
    assert first == again != second


def test_gadbench_draws_by_its_recipe():
    y = torch.tensor([0] * 900 + [1] * 100 + [-1] * 50)
    full = get_protocol('gadbench-full').split(task_of(y), 3)
    assert full.describe(y) == {
        'seed': 3437,
        'masks': full.fingerprint(),
        'train': {'nodes': 400, 'anomalies': 40},
        'val': {'nodes': 200, 'anomalies': 20},
        'test': {'nodes': 400, 'anomalies': 40},
    }
    protocol = get_protocol('gadbench-semi')
    semi = protocol.split(task_of(y), 3)
    assert semi.describe(y) == {
        'seed': 3437,
        'masks': semi.fingerprint(),
        'train': {'nodes': 100, 'anomalies': 20},
        'val': {'nodes': 100, 'anomalies': 20},
        'test': {'nodes': 800, 'anomalies': 60},
    }
    parts = torch.stack([semi.train, semi.val, semi.test]).long()
    torch.testing.assert_close(parts.sum(0), (y >= 0).long())
    assert semi.fingerprint() == protocol.split(task_of(y), 3).fingerprint()
    assert semi.fingerprint() != protocol.split(task_of(y), 4).fingerprint()


def test_gadbench_takes_stored_masks_first():
    y = torch.tensor([0, 1] * 3)
    masks = torch.zeros(3, 6, 20, dtype=torch.bool)
    for part in range(3):
        masks[part, 2 * part : 2 * part + 2, 4] = True
        masks[part, 4 - 2 * part : 6 - 2 * part, 14] = True
    task = task_of(y, gadbench=tuple(masks))
    full = get_protocol('gadbench-full').split(task, 4)
    semi = get_protocol('gadbench-semi').split(task, 4)
    assert full.train.tolist() == semi.test.tolist()
    assert full.train.nonzero().flatten().tolist() == [0, 1]
    assert full.seed is None


def test_gadbench_refuses_what_it_cannot_draw():
    y = torch.tensor([0] * 900 + [1] * 40)
    with pytest.raises(ValueError, match=r'more than 40 nodes .*got 40'):
        get_protocol('gadbench-semi').split(task_of(y), 0)
    for name in ('gadbench-semi', 'gadbench-full'):
        with pytest.raises(ValueError, match=r'below 10 .*got 10'):
            get_protocol(name).split(task_of(y), 10)


def test_stored_gadbench_masks_of_a_dataset(data_root):
    task = load_task('reddit')
    found = get_protocol('gadbench-semi').split(task, 9)
    counts = found.describe(task.data.y)
    assert counts['train'] == {'nodes': 100, 'anomalies': 20}
    assert counts['val'] == {'nodes': 100, 'anomalies': 20}
    assert torch.equal(found.test, task.splits['gadbench'][2][:, 19])
