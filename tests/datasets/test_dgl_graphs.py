import numpy as np
import pytest
import torch

from tests.data.dgl_writer import dgl_file, graph, node_graph
from torch_energy_graph.datasets import GADBenchDataset, TFinance, TSocial

EDGES = np.array([[0, 1, 2, 3, 5], [1, 0, 3, 2, 5]])
X = np.arange(12, dtype=np.float32).reshape(6, 2)
LABEL = np.array([0, 1, 0, 0, 1, 1])


def masks():
    """Two splits; node 5 is in none of them."""
    fold = np.array([[0, 1, 2, 0, 1, 3], [1, 2, 0, 1, 2, 3]]).T
    names = ('train_masks', 'val_masks', 'test_masks')
    return {name: (fold == i).astype('u1') for i, name in enumerate(names)}


@pytest.mark.parametrize('formats', [('coo',), ('csr', 'csc'), ('csc',)])
@pytest.mark.parametrize('dtype', [np.int32, np.int64])
def test_gadbench_file(formats, dtype, place, folder):
    content = node_graph(
        EDGES.astype(dtype), formats, feature=X, label=LABEL, **masks()
    )
    place('reddit', content)
    ds = GADBenchDataset('reddit', folder)
    data = ds[0]
    assert repr(ds) == "GADBenchDataset('reddit')"
    assert data.x.tolist() == X.tolist()
    assert data.edge_index.tolist() == EDGES.tolist()
    assert data.edge_index.dtype == torch.int64
    assert 'edge_type' not in data
    assert data.y.tolist() == [0, 1, 0, 0, 1, -1]
    (family,) = ds.splits
    assert family == 'gadbench'
    for mask, (key, array) in zip(
        ds.splits['gadbench'], masks().items(), strict=True
    ):
        assert mask.tolist() == array.astype(bool).tolist()
        assert data[key.removesuffix('s')].tolist() == mask.tolist()


def test_overlapping_masks_give_no_splits(place, folder):
    content = masks()
    content['test_masks'] = content['train_masks']
    place(
        'GADBench/weibo', node_graph(EDGES, feature=X, label=LABEL, **content)
    )
    ds = GADBenchDataset('weibo', folder)
    with pytest.raises(ValueError, match=r"disjoint masks .*'gadbench'"):
        ds.splits  # noqa: B018


def test_hetero_file_of_gadbench(place, folder):
    relations = {
        ('user', 'net_usu', 'user'): EDGES,
        ('user', 'net_upu', 'user'): EDGES[:, :2],
    }
    nodes = {'user': (6, {'feature': X, 'label': LABEL, **masks()})}
    place('GADBench/hetero/amazon', dgl_file(graph(nodes, relations)))
    ds = GADBenchDataset('hetero/amazon', folder)
    assert ds.relations == ('usu', 'upu')
    assert ds[0].edge_type.tolist() == [0] * 5 + [1] * 2
    simple = GADBenchDataset('hetero/amazon', folder, edges='simple')[0]
    assert simple.num_edges == 5


@pytest.mark.parametrize('kind', [TFinance, TSocial])
def test_files_of_bwgnn(kind, place, folder):
    one_hot = np.eye(2, dtype=np.int64)[LABEL]
    label = one_hot if kind is TFinance else LABEL
    place(kind.__name__.lower(), node_graph(EDGES, feature=X, label=label))
    ds = kind(folder)
    assert repr(ds) == f'{kind.__name__}()'
    assert ds[0].y.tolist() == LABEL.tolist()
    assert ds[0].edge_index.tolist() == EDGES.tolist()
    assert ds.splits == {}


def test_other_labels_are_unlabelled(place, folder):
    label = np.array([0, 1, 2, 3, -1, 1], dtype=np.int32)
    place('tsocial', node_graph(EDGES, feature=X, label=label))
    assert TSocial(folder)[0].y.tolist() == [0, 1, -1, -1, -1, 1]


BAD = {
    'no label': ({'feature': X}, "'feature' and 'label'"),
    'flat feature': ({'feature': X[:, 0], 'label': LABEL}, r'shape \[N, F\]'),
    'three columns': (
        {'feature': X, 'label': np.eye(6, 3)},
        r'shape \[N\] or \[N, 2\]',
    ),
    'no one-hot': (
        {'feature': X, 'label': np.ones((6, 2))},
        'one 1 in each row',
    ),
    'NaN': (
        {'feature': np.full_like(X, np.nan), 'label': LABEL},
        'NaN or Inf at 6 nodes',
    ),
    'one mask': (
        {'feature': X, 'label': LABEL, 'val_masks': masks()['val_masks']},
        'masks of train, val and test',
    ),
    'mask of twos': (
        {'feature': X, 'label': LABEL, 'val_masks': np.full((6, 2), 2)},
        "0 and 1 in 'val_masks'",
    ),
}


@pytest.mark.parametrize('case', BAD)
def test_bad_graphs_name_the_file(case, place, folder):
    arrays, match = BAD[case]
    place('tfinance', node_graph(EDGES, **arrays))
    with pytest.raises(ValueError, match=match) as caught:
        TFinance(folder)
    assert 'tfinance' in str(caught.value)


def test_two_graphs_in_a_file(place, folder):
    one = graph({'_N': (6, {})}, {})
    place('tfinance', dgl_file(one, one))
    with pytest.raises(ValueError, match='one graph'):
        TFinance(folder)


def test_unknown_name_of_gadbench(folder):
    with pytest.raises(ValueError, match='reddit, weibo'):
        GADBenchDataset('cora', folder)


def test_golden_files_of_dgl(shared_root, require_file, tmp_path):
    golden = shared_root / 'golden' / 'dgl'
    for name, target in (
        ('tfinance_like_coo', 'tfinance'),
        ('gadbench_like_csc_i32', 'questions'),
        ('hetero_all', 'hetero/yelp'),
    ):
        path = tmp_path / 'GADBench' / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(require_file(golden / f'{name}.bin'))
    arrays = np.load(golden / 'tfinance_like_coo.npz')
    data = TFinance(tmp_path)[0]
    assert data.y.tolist() == arrays['label'][:, 1].tolist()
    assert data.edge_index[0].tolist() == arrays['src'].tolist()
    arrays = np.load(golden / 'gadbench_like.npz')
    data = GADBenchDataset('questions', tmp_path)[0]
    assert (
        data.train_mask.tolist() == arrays['train_masks'].astype(bool).tolist()
    )
    assert data.edge_index[1].tolist() == arrays['dst'].tolist()
    arrays = np.load(golden / 'hetero_all.npz')
    ds = GADBenchDataset('hetero/yelp', tmp_path)
    for kind, name in enumerate(ds.relations):
        edges = ds[0].edge_index[:, ds[0].edge_type == kind]
        assert edges[0].tolist() == arrays[f'net_{name}_src'].tolist()
        assert edges[1].tolist() == arrays[f'net_{name}_dst'].tolist()
