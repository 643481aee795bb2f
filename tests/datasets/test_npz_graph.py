import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from torch_energy_graph.datasets import NpzGraph


def csr_parts(x):
    csr = csr_array(x)
    return {
        'x_data': csr.data,
        'x_indices': csr.indices,
        'x_indptr': csr.indptr,
        'x_shape': np.array(csr.shape),
    }


def test_dense_graph(arrays, save):
    ds = NpzGraph('tiny', root=save(arrays))
    data = ds[0]
    assert len(ds) == 1
    assert repr(ds) == "NpzGraph('tiny')"
    assert data.x.dtype == torch.float32
    assert data.x.tolist() == arrays['x'].tolist()
    assert data.edge_index.tolist() == arrays['edge_index'].tolist()
    assert data.y.tolist() == arrays['y'].tolist()
    assert data.train_mask.tolist() == arrays['train_mask'].tolist()
    assert ds.meta == {'source': 'made', 'licence': 'MIT'}
    assert ds.task == 'anomaly'


def test_csr_features_equal_dense_ones(arrays, save):
    x = arrays.pop('x')
    data = NpzGraph('tiny', root=save({**arrays, **csr_parts(x)}))[0]
    assert data.x.tolist() == x.tolist()
    assert data.x.dtype == torch.float32


def test_split_families(arrays, save):
    rolled = {
        f'my_recipe_{part}_masks': np.stack(
            [np.roll(arrays[f'{part}_mask'], shift) for shift in range(4)], 1
        )
        for part in ('train', 'val', 'test')
    }
    ds = NpzGraph('tiny', root=save({**arrays, **rolled}))
    assert set(ds.splits) == {'official', 'my_recipe'}
    for i, part in enumerate(('train', 'val', 'test')):
        official = arrays[f'{part}_mask'][:, None]
        assert ds.splits['official'][i].tolist() == official.tolist()
        expected = rolled[f'my_recipe_{part}_masks']
        assert ds.splits['my_recipe'][i].tolist() == expected.tolist()


def test_unlabelled_nodes_become_minus_one(arrays, save):
    labeled = np.array([True, True, True, False, False, True])
    data = NpzGraph('tiny', root=save({**arrays, 'labeled_mask': labeled}))[0]
    assert data.y.tolist() == [0, 1, 0, -1, -1, 0]
    assert data.labeled_mask.tolist() == labeled.tolist()


def test_classes_stay_as_they_are(arrays, save):
    arrays['y'] = np.array([0, 3, 2, 1, 0, 3])
    ds = NpzGraph('tiny', root=save(arrays))
    assert ds[0].y.tolist() == [0, 3, 2, 1, 0, 3]
    assert ds.task == 'classification'


def test_transform_acts_at_access(arrays, save):
    def double(data):
        data.x = data.x * 2
        return data

    ds = NpzGraph('tiny', root=save(arrays), transform=double)
    for _ in range(2):
        assert ds[0].x.tolist() == (2 * arrays['x']).tolist()


def csr_with(**changes):
    def change(arrays):
        parts = csr_parts(arrays.pop('x'))
        arrays.update({**parts, **changes})

    return change


def with_array(**changes):
    return lambda arrays: arrays.update(changes)


ONES = np.ones(6, dtype=bool)
BAD = {
    'no features': (lambda a: a.pop('x'), "expected features 'x'"),
    'no labels': (lambda a: a.pop('y'), "an array 'y'"),
    'no edges': (lambda a: a.pop('edge_index'), "an array 'edge_index'"),
    'float edges': (
        with_array(edge_index=np.zeros((2, 3))),
        'integers in edge_index',
    ),
    'edges [E, 2]': (
        with_array(edge_index=np.zeros((3, 2), dtype=int)),
        r'did you mean \.t\(\)',
    ),
    'edge out of range': (
        with_array(edge_index=np.array([[0], [6]])),
        'indices 0 to 5',
    ),
    'NaN': (with_array(x=np.full((6, 2), np.nan)), 'NaN or Inf at 6 nodes'),
    'text': (with_array(x=np.full((6, 2), 'a')), 'numbers in x'),
    'short labels': (with_array(y=np.array([0, 1])), r'y of shape \[6\]'),
    'short mask': (with_array(train_mask=ONES[:5]), 'train_mask as bool'),
    'overlap': (with_array(train_mask=ONES), 'disjoint masks .*official'),
    'lonely mask': (with_array(own_train_mask=ONES), "family 'own'"),
    'integer mask': (
        with_array(own_train_mask=ONES.astype(int)),
        'own_train_mask as bool',
    ),
    'meta': (with_array(meta=np.array('{')), "bad JSON in 'meta'"),
    'meta list': (with_array(meta=np.array('[]')), 'a JSON object'),
    'csr column': (csr_with(x_indices=np.full(11, 2)), 'bad graph'),
    'csr pointer': (
        csr_with(x_indptr=np.zeros(7, dtype=int)),
        'x_indptr to end with 11',
    ),
    'csr order': (
        csr_with(x_indptr=np.array([0, 3, 2, 5, 7, 9, 11])),
        'bad graph',
    ),
    'csr shape': (csr_with(x_shape=np.array([6])), 'two numbers in x_shape'),
}


@pytest.mark.parametrize('case', BAD)
def test_bad_arrays_name_the_file(arrays, save, case):
    change, match = BAD[case]
    change(arrays)
    root = save(arrays)
    with pytest.raises(ValueError, match=match) as caught:
        NpzGraph('tiny', root=root)
    assert 'tiny.npz' in str(caught.value)


def damage(path, how):
    raw = path.read_bytes()
    if how == 'truncated':
        path.write_bytes(raw[: len(raw) // 2])
    elif how == 'empty':
        path.write_bytes(b'')
    elif how == 'garbage':
        path.write_bytes(b'PK\x03\x04' + b'\x00' * 100)
    elif how == 'single array':
        with path.open('wb') as file:
            np.save(file, np.zeros(3))
    elif how == 'bit flips':
        middle = len(raw) // 3
        path.write_bytes(raw[:middle] + b'\xff' * 8 + raw[middle + 8 :])


@pytest.mark.parametrize(
    'how', ['truncated', 'empty', 'garbage', 'single array', 'bit flips']
)
def test_damaged_files(arrays, save, how):
    root = save(arrays)
    damage(root / 'tiny.npz', how)
    with pytest.raises(ValueError, match=r'cannot read .*tiny\.npz'):
        NpzGraph('tiny', root=root)


class Bomb:
    def __reduce__(self):
        return exec, ('raise SystemExit("a pickle ran")',)


def test_pickles_are_refused_and_do_not_run(arrays, save):
    arrays['x'] = np.array([Bomb()], dtype=object)
    root = save(arrays)
    with pytest.raises(ValueError, match='without pickle'):
        NpzGraph('tiny', root=root)
