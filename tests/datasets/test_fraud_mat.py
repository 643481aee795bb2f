import numpy as np
import pytest
import torch
from scipy.sparse import csc_array, random_array

from torch_energy_graph import datasets
from torch_energy_graph.datasets import FraudAmazon, FraudYelp

AMAZON_NODES = 11_944


def symmetric(num_nodes, num_pairs, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(num_nodes, size=(num_pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    return csc_array((np.ones(len(both)), both.T), (num_nodes, num_nodes))


def full_form(num_nodes, names, num_pairs=30):
    rng = np.random.default_rng(5)
    label = rng.random((1, num_nodes)) < 0.2
    content = {
        'features': random_array((num_nodes, 3), density=0.5, rng=rng).tocsc(),
        'label': label.astype(np.float64),
        'homo': symmetric(num_nodes, 2, 99),
    }
    for seed, name in enumerate(names):
        content[name] = symmetric(num_nodes, num_pairs, seed)
    return content


@pytest.fixture
def yelp(place):
    content = full_form(40, ('net_rur', 'net_rtr', 'net_rsr'))
    place('YelpChi.mat', content)
    return content


def pairs_of(edge_index):
    return set(map(tuple, edge_index.t().tolist()))


def test_yelp_relations_are_typed_edges(yelp, folder):
    ds = FraudYelp(folder)
    data = ds[0]
    assert ds.relations == ('rsr', 'rtr', 'rur')
    assert repr(ds) == 'FraudYelp()'
    assert data.x.tolist() == yelp['features'].toarray().astype('f4').tolist()
    assert data.y.tolist() == yelp['label'][0].tolist()
    for kind, name in enumerate(ds.relations):
        edges = data.edge_index[:, data.edge_type == kind]
        matrix = yelp[f'net_{name}'].tocoo()
        assert pairs_of(edges) == set(
            zip(matrix.row.tolist(), matrix.col.tolist(), strict=True)
        )
        assert edges.size(1) == matrix.nnz


def test_duplicates_are_kept_or_merged(yelp, folder):
    merged = FraudYelp(folder, edges='merged')[0]
    simple = FraudYelp(folder, edges='simple')[0]
    matrices = [yelp[f'net_{name}'] for name in ('rsr', 'rtr', 'rur')]
    assert merged.num_edges == sum(matrix.nnz for matrix in matrices)
    assert simple.num_edges == sum(matrices[1:], matrices[0]).nnz
    assert simple.num_edges < merged.num_edges
    assert pairs_of(simple.edge_index) == pairs_of(merged.edge_index)
    assert 'edge_type' not in merged
    assert 'edge_type' not in simple


def test_some_relations(yelp, folder):
    ds = FraudYelp(folder, relations=('rur', 'rsr'))
    assert ds.relations == ('rur', 'rsr')
    first = ds[0].edge_index[:, ds[0].edge_type == 0]
    assert first.size(1) == yelp['net_rur'].nnz
    for wrong in (('rxr',), (), ('rur', 'rur')):
        with pytest.raises(ValueError, match='among rsr, rtr, rur'):
            FraudYelp(folder, relations=wrong)


def test_split_of_dgl(yelp, folder):
    train, val, test = FraudYelp(folder).splits['dgl']
    order = np.random.RandomState(717).permutation(np.arange(40))
    assert train[order[:28], 0].all()
    assert val[order[36:], 0].all()
    assert test[order[28:36], 0].all()
    assert (train.int() + val.int() + test.int()).eq(1).all()


def test_amazon_marks_the_unlabelled(place, folder):
    names = ('net_upu', 'net_usu', 'net_uvu')
    content = full_form(AMAZON_NODES, names, num_pairs=300)
    place('FraudAmazon/raw/Amazon.mat', content)
    ds = FraudAmazon(folder)
    y = ds[0].y
    assert (y[:3305] == -1).all()
    assert y[3305:].tolist() == content['label'][0, 3305:].tolist()
    assert ds.relations == ('upu', 'usu', 'uvu')
    train, val, test = ds.splits['dgl']
    used = (train | val | test).squeeze(1)
    assert used.tolist() == (y >= 0).tolist()
    assert train.sum() == int(0.7 * 8639)
    assert val.sum() == 863


def test_amazon_of_unknown_size_is_no_guess(place, folder):
    place('Amazon.mat', full_form(50, ('net_upu',)))
    with pytest.raises(ValueError, match=r'11944 or 10224 nodes .*\(got 50'):
        FraudAmazon(folder)


@pytest.mark.parametrize(
    ('kind', 'name', 'source', 'npz'),
    [
        (FraudAmazon, 'Amazon.mat', 'Amazon_UPU.mat', 'amazon_fraud_upu'),
        (FraudYelp, 'YelpChi.mat', 'YelpChi_RUR.mat', 'yelpchi_rur'),
    ],
)
def test_real_single_relation_files(
    kind, name, source, npz, shared_root, data_root, require_file, tmp_path
):
    raw = shared_root / 'data_raw' / 'fraud_mat' / source
    (tmp_path / name).symlink_to(require_file(raw))
    require_file(data_root / f'{npz}.npz')
    data = kind(tmp_path)[0]
    expected = datasets.load(npz, data_root)
    for key in ('x', 'y', 'edge_index'):
        assert torch.equal(data[key], expected[key])
