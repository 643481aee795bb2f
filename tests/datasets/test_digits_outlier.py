import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from torch_geometric.utils import degree, is_undirected, scatter

from torch_energy_graph import datasets
from torch_energy_graph.data import check_graph
from torch_energy_graph.datasets import DigitsOutlier
from torch_energy_graph.metrics import auprc


@pytest.fixture(scope='module')
def data():
    return DigitsOutlier()[0]


def test_counts(data):
    check_graph(data)
    assert data.x.shape == (1673, 64)
    assert data.x.dtype == torch.float32
    assert data.y.bincount().tolist() == [1623, 50]
    assert is_undirected(data.edge_index, num_nodes=1673)
    assert degree(data.edge_index[0], 1673).min() >= 10
    assert not (data.edge_index[0] == data.edge_index[1]).any()


def test_recipe_without_noise():
    data = DigitsOutlier(digit=3, num_anomalies=183, noise=0.0)[0]
    pixels, classes = load_digits(return_X_y=True)
    # all images are kept, in their order
    assert np.allclose(data.x.numpy(), pixels / 16)
    assert data.y.tolist() == (classes == 3).astype(int).tolist()
    near = np.argsort(np.square(pixels - pixels[5]).sum(1))[1:11]
    targets = data.edge_index[1, data.edge_index[0] == 5].tolist()
    assert set(near.tolist()) <= set(targets)


def test_seed_decides_all(data):
    same = datasets.load('digits_outlier')
    assert torch.equal(data.x, same.x)
    assert torch.equal(data.edge_index, same.edge_index)
    other = DigitsOutlier(seed=1)[0]
    assert not torch.equal(data.x[:9], other.x[:9])


def mean_of_neighbors(data, x):
    src, dst = data.edge_index
    return scatter(x[src], dst, dim_size=data.num_nodes, reduce='mean')


def precision(data, x):
    x = StandardScaler().fit_transform(x.numpy())
    y = data.y.numpy()
    test = np.arange(len(y)) % 5 > 1  # node order is random
    model = LogisticRegression(C=0.05, class_weight='balanced')
    model.fit(x[~test], y[~test])
    return auprc(y[test], model.decision_function(x[test]))


def test_neither_trivial_nor_impossible_and_the_graph_helps(data):
    one_hop = mean_of_neighbors(data, data.x)
    two_hops = mean_of_neighbors(data, one_hop)
    alone = precision(data, data.x)
    both = precision(data, torch.cat([data.x, one_hop, two_hops], dim=1))
    assert 0.1 < alone < 0.5
    assert alone + 0.05 < both < 0.8


@pytest.mark.parametrize(
    ('options', 'match'),
    [
        ({'digit': 10}, '0 to 9'),
        ({'num_anomalies': 0}, "1 <= 'num_anomalies' <= 174 for digit 8"),
        ({'num_neighbors': 0}, 'num_neighbors'),
        ({'noise': -1.0}, 'noise'),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        DigitsOutlier(**options)
