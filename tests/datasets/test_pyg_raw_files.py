"""Raw files of PyG's datasets give PyG's graphs, without PyG's cache."""

import shutil
import zipfile
from io import BytesIO

import numpy as np
import pytest
import torch

from torch_geometric import datasets as pyg

from torch_energy_graph import datasets
from torch_energy_graph.datasets import DGraphFin, EllipticBitcoinDataset


def heterophilous_arrays():
    fold = np.arange(12).reshape(2, 6) % 3
    return {
        'node_features': np.arange(12, dtype=np.float32).reshape(6, 2),
        'node_labels': np.array([0, 1, 0, 0, 1, 0]),
        'edges': np.array([[0, 1], [3, 2], [4, 0], [5, 5]]),
        'train_masks': fold == 0,
        'val_masks': fold == 1,
        'test_masks': fold == 2,
    }


@pytest.mark.parametrize(
    'where',
    [
        'questions.npz',
        'questions/raw/questions.npz',
        'HeterophilousGraphDataset/questions/raw/questions.npz',
    ],
)
def test_questions(where, place, folder):
    path = place(where, heterophilous_arrays())
    ds = datasets.get('questions', folder)
    raw = folder / 'pyg' / 'questions' / 'raw' / 'questions.npz'
    raw.parent.mkdir(parents=True)
    shutil.copy(path, raw)
    expected = pyg.HeterophilousGraphDataset(str(folder / 'pyg'), 'Questions')
    for key in ('x', 'y', 'edge_index', 'train_mask', 'val_mask', 'test_mask'):
        assert torch.equal(ds[0][key], expected[0][key])
    assert ds.splits['official'][0].shape == (6, 2)
    facts = datasets.info('questions', folder)
    assert facts['licence'] == 'MIT'
    assert facts['path'] == str(path)
    assert 'questions' in [c.name for c in datasets.available(folder)]


@pytest.mark.parametrize(
    ('change', 'match'),
    [
        ({'edges': np.array([[0, 6]])}, 'indices 0 to 5'),
        ({'edges': np.array([[0, 1, 2]])}, r'shape \[E, 2\]'),
        ({'edges': np.array([[0.0, 1.0]])}, 'integer edges'),
    ],
)
def test_bad_edges_of_the_raw_form(change, match, place, folder):
    place('questions.npz', {**heterophilous_arrays(), **change})
    with pytest.raises(ValueError, match=match) as caught:
        datasets.load('questions', folder)
    assert 'questions.npz' in str(caught.value)


def test_raw_form_with_a_missing_array(place, folder):
    arrays = heterophilous_arrays()
    del arrays['val_masks']
    place('questions.npz', arrays)
    with pytest.raises(ValueError, match='expected arrays val_masks'):
        datasets.load('questions', folder)


def test_real_tolokers_in_both_forms(
    shared_root, data_root, require_file, folder
):
    require_file(data_root / 'tolokers.npz')
    raw = shared_root / 'data_raw'
    name = 'HeterophilousGraphDataset/tolokers/raw/tolokers.npz'
    require_file(raw / name)
    found = datasets.get('tolokers', raw)
    assert found.path == raw / name
    expected = datasets.load('tolokers', data_root)
    for key in ('x', 'y', 'edge_index', 'train_mask', 'val_mask', 'test_mask'):
        assert torch.equal(found[0][key], expected[key])


FEATURES = """\
230425980,1,-0.5,1.5
5530458,25,0.25,2.5
232022460,26,1.0,3.5
3181,34,1.25,4.5
998,35,1.5,5.5
"""
CLASSES = """\
txId,class
230425980,unknown
5530458,1
232022460,2
3181,1
998,2
"""
EDGE_LIST = """\
txId1,txId2
230425980,5530458
998,3181
5530458,998
"""


@pytest.fixture
def elliptic(place, folder):
    def write(features=FEATURES, classes=CLASSES, edges=EDGE_LIST):
        where = 'EllipticBitcoinDataset/raw/elliptic_txs_{}.csv'
        place(where.format('features'), features.encode())
        place(where.format('classes'), classes.encode())
        place(where.format('edgelist'), edges.encode())
        return folder

    return write


def test_elliptic_by_hand(elliptic):
    ds = EllipticBitcoinDataset(elliptic())
    data = ds[0]
    assert data.x.tolist() == [
        [-0.5, 1.5],
        [0.25, 2.5],
        [1.0, 3.5],
        [1.25, 4.5],
        [1.5, 5.5],
    ]
    assert data.y.tolist() == [-1, 1, 0, 1, 0]
    assert data.time_step.tolist() == [1, 25, 26, 34, 35]
    assert data.edge_index.tolist() == [[0, 4, 1], [1, 3, 4]]
    train, val, test = (m[:, 0].tolist() for m in ds.splits['official'])
    assert train == [False, True, False, False, False]
    assert val == [False, False, True, True, False]
    assert test == [False, False, False, False, True]


def test_elliptic_equals_pyg(elliptic):
    pytest.importorskip('pandas', reason="PyG's reader needs pandas")
    root = elliptic()
    found = EllipticBitcoinDataset(root)[0]
    theirs = pyg.EllipticBitcoinDataset(str(root / 'EllipticBitcoinDataset'))
    expected = theirs[0]
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.edge_index, expected.edge_index)
    assert torch.equal(found.y % 3, expected.y)


@pytest.mark.parametrize(
    ('files', 'match'),
    [
        ({'features': FEATURES + '1,2\n'}, 'features.csv'),
        ({'features': '1,x,3\n'}, 'features.csv'),
        ({'features': '1,2\n'}, '3 or more columns'),
        ({'classes': CLASSES.replace('unknown', '3')}, r'classes.*got 3'),
        ({'edges': EDGE_LIST + '77,998\n'}, r'edgelist.*first \[77\]'),
    ],
)
def test_bad_tables_of_elliptic(files, match, elliptic):
    root = elliptic(**files)
    with pytest.raises(ValueError, match=match):
        EllipticBitcoinDataset(root)


def dgraph_arrays():
    return {
        'x': np.arange(10.0).reshape(5, 2),
        'y': np.array([0, 1, 2, 3, 0]),
        'edge_index': np.array([[0, 1], [2, 4], [3, 3]]),
        'edge_type': np.array([1, 5, 11]),
        'edge_timestamp': np.array([821, 1, 7]),
        'train_mask': np.array([0]),
        'valid_mask': np.array([1]),
        'test_mask': np.array([4]),
    }


def as_zip(arrays):
    inner, outer = BytesIO(), BytesIO()
    np.savez(inner, **arrays)
    with zipfile.ZipFile(outer, 'w') as archive:
        archive.writestr('dgraphfin.npz', inner.getvalue())
    return outer.getvalue()


def test_dgraphfin_equals_pyg(place, folder):
    place('DGraphFin/raw/DGraphFin.zip', as_zip(dgraph_arrays()))
    ds = DGraphFin(folder)
    expected = pyg.DGraphFin(str(folder / 'DGraphFin'))[0]
    for key in ('x', 'edge_index', 'edge_type', 'edge_time'):
        assert torch.equal(ds[0][key], expected[key])
    assert ds[0].y.tolist() == [0, 1, -1, -1, 0]
    for mask, part in zip(
        ds.splits['official'], ('train', 'val', 'test'), strict=True
    ):
        assert torch.equal(mask[:, 0], expected[f'{part}_mask'])


def test_dgraphfin_npz(place, folder):
    path = place('dgraphfin.npz', dgraph_arrays())
    ds = datasets.get('dgraphfin', folder)
    assert isinstance(ds, DGraphFin)
    assert ds.path == path
    cards = {card.name: card for card in datasets.available(folder)}
    assert cards['dgraphfin'].path == path


@pytest.mark.parametrize(
    ('change', 'match'),
    [
        ({'train_mask': np.array([5])}, 'out of bounds'),
        ({'train_mask': np.array([-1])}, "list of nodes in 'train_mask'"),
        ({'edge_index': np.zeros((2, 3), int)}, r'shape \[E, 2\]'),
        ({'edge_index': np.full((3, 2), 9)}, 'indices 0 to 4'),
    ],
)
def test_bad_arrays_of_dgraphfin(change, match, place, folder):
    place('dgraphfin.npz', {**dgraph_arrays(), **change})
    with pytest.raises(ValueError, match=match):
        DGraphFin(folder)


def test_bad_archives_of_dgraphfin(place, folder):
    place('DGraphFin.zip', b'no zip')
    with pytest.raises(ValueError, match=r'dgraphfin\.npz'):
        DGraphFin(folder)
    arrays = dgraph_arrays()
    del arrays['edge_timestamp']
    place('DGraphFin.zip', as_zip(arrays))
    with pytest.raises(ValueError, match='arrays edge_timestamp'):
        DGraphFin(folder)
