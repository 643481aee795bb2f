import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from torch_geometric.utils import contains_self_loops, is_undirected

from torch_energy_graph import datasets
from torch_energy_graph.datasets import FeatureSet


def test_digits_are_those_of_scikit_learn():
    pixels, classes = load_digits(return_X_y=True)
    data = datasets.load('digits')
    np.testing.assert_array_equal(data.x.numpy() * 16, pixels)
    np.testing.assert_array_equal(data.y.numpy(), classes)
    assert data.edge_index.shape == (2, 0)
    assert datasets.find('digits_knn') is None


def test_every_item_is_linked_to_its_nearest_ones():
    data = datasets.load('digits_knn')
    assert is_undirected(data.edge_index, num_nodes=1797)
    assert not contains_self_loops(data.edge_index)
    distance = torch.cdist(data.x.double(), data.x.double())
    distance.fill_diagonal_(float('inf'))
    linked = torch.zeros(1797, 1797, dtype=torch.bool)
    linked[data.edge_index[0], data.edge_index[1]] = True
    fifth = distance.kthvalue(5, dim=1).values
    near = distance < fifth.unsqueeze(-1) - 1e-9  # ties may go either way
    assert linked[near].all()
    far = distance > fifth.unsqueeze(-1) + 1e-9
    assert not linked[far & far.t()].any()
    assert linked.sum(1).min() >= 5


def test_cards():
    card = datasets.info('digits_knn')
    assert card['task'] == 'classification'
    assert card['num_classes'] == 10
    assert card['homophily'] > 0.9
    assert 'CC BY' in card['licence']
    assert card['splits'] == {}


def test_images_and_texts_from_files(tmp_path):
    folder = tmp_path / 'images'
    folder.mkdir()
    pixels = np.arange(7 * 4, dtype=np.uint8).reshape(7, 2, 2) * 9
    labels = np.arange(7, dtype=np.uint8)
    np.savez(folder / 'mnist_test.npz', x=pixels, y=labels)
    data = FeatureSet('mnist', tmp_path)[0]
    np.testing.assert_allclose(data.x[3], pixels[3].reshape(-1) / 255)
    assert data.y.tolist() == list(range(7))
    knn = FeatureSet('mnist_knn', tmp_path, num_neighbors=1)[0]
    chain = {(i, j) for i, j in knn.edge_index.t().tolist() if i < j}
    assert chain <= {(i, i + 1) for i in range(6)}
    with pytest.raises(ValueError, match="'num_neighbors' < 7 items"):
        FeatureSet('mnist_knn', tmp_path, num_neighbors=7)


def test_a_damaged_file_is_named(tmp_path):
    np.savez(tmp_path / '20news10.npz', x=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"bad set in '.*20news10\.npz'"):
        FeatureSet('20news10', tmp_path)


def test_unknown_names():
    with pytest.raises(ValueError, match=r'digits_knn.*got .fashion.'):
        FeatureSet('fashion')


def test_the_ten_newsgroups(data_root, require_file):
    require_file(data_root / 'text' / '20news10.npz')
    data = datasets.load('20news10', data_root)
    assert (data.num_nodes, data.num_features) == (9607, 236)
    assert data.y.unique().tolist() == list(range(10))
    norms = data.x.norm(dim=1)  # of tf-idf: 1, or 0 without a known word
    assert ((norms - 1).abs() < 1e-5).logical_or(norms == 0).all()
