import numpy as np
import pytest
import torch
from scipy.stats import norm

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform, Compose

from torch_energy_graph.transforms import (
    PiecewiseLinearEncoding,
    QuantileNormalize,
    Standardize,
)

ENCODERS = [Standardize(), QuantileNormalize(), PiecewiseLinearEncoding(4)]
ids = [type(encoder).__name__ for encoder in ENCODERS]


@pytest.fixture
def graph():
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=gen).exp()
    x[:, 2] = (x[:, 2] > 1).float()  # a binary feature
    return Data(x=x), torch.arange(60) % 3 == 0


@pytest.mark.parametrize('encoder', ENCODERS, ids=ids)
@pytest.mark.parametrize('poison', [1e6, -1e6, float('nan')])
def test_only_the_fitted_nodes_are_read(graph, encoder, poison):
    data, train = graph
    clean = encoder.fit(data, train)(data).x[train]
    poisoned = Data(x=data.x.clone())
    poisoned.x[~train] = poison
    again = encoder.fit(poisoned, train)(data).x[train]
    assert torch.equal(clean, again)
    assert poisoned.x[~train].ne(data.x[~train]).any()  # the input stays


@pytest.mark.parametrize('encoder', ENCODERS, ids=ids)
def test_they_are_pyg_transforms(graph, encoder):
    data, train = graph
    assert isinstance(encoder, BaseTransform)
    x = data.x.clone()
    out = Compose([encoder.fit(data, train)])(data)
    assert torch.equal(data.x, x)
    assert out is not data
    assert out.x.dtype == x.dtype
    assert out.x.isfinite().all()


@pytest.mark.parametrize('encoder', ENCODERS, ids=ids)
def test_errors(graph, encoder):
    data, train = graph
    with pytest.raises(ValueError, match='is not fitted'):
        type(encoder)()(data)
    with pytest.raises(ValueError, match=r'bool of shape \[60\]'):
        encoder.fit(data, train[:5])
    with pytest.raises(ValueError, match='at least one node'):
        encoder.fit(data, train & False)
    with pytest.raises(ValueError, match='fitted on 3 features'):
        encoder.fit(data, train)(Data(x=data.x[:, :2]))
    with pytest.raises(ValueError, match='floating-point'):
        encoder.fit(Data(x=data.x.long()), train)


def test_standardize(graph):
    data, train = graph
    x = Standardize().fit(data, train)(data).x[train].double()
    torch.testing.assert_close(x.mean(0), x.new_zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), x.new_ones(3))


def test_normal_ranks(graph):
    data, train = graph
    x = QuantileNormalize().fit(data, train)(data).x[train, 0].numpy()
    order = data.x[train, 0].argsort().argsort().numpy()
    inner = (order > 0) & (order < len(order) - 1)
    expected = norm.ppf(order[inner] / (len(order) - 1))
    np.testing.assert_allclose(x[inner], expected, atol=1e-5)
    with pytest.raises(ValueError, match='num_quantiles >= 2'):
        QuantileNormalize(1)


def test_piecewise_linear_by_hand():
    x = torch.tensor([[0.0, 7.0], [2.0, 7.0], [6.0, 7.0], [4.0, 9.0]])
    train = torch.tensor([True, True, True, False])
    encoder = PiecewiseLinearEncoding(2).fit(Data(x=x), train)
    # bins 0-2 and 2-6; a constant feature has one bin, never filled
    assert encoder(Data(x=x)).x.tolist() == [
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [1.0, 1.0, 0.0],
        [1.0, 0.5, 0.0],
    ]
    with pytest.raises(ValueError, match='num_bins >= 1'):
        PiecewiseLinearEncoding(0)


def test_piecewise_linear_keeps_order_and_undoes(graph):
    data, train = graph
    encoder = PiecewiseLinearEncoding(4).fit(data, train)
    code = encoder(data).x.double().numpy()
    edges = encoder.edges_[0]
    # the bins, weighted by their widths, give the clamped feature back
    x = data.x[:, 0].double().numpy().clip(edges[0], edges[-1])
    back = edges[0] + code[:, : len(edges) - 1] @ np.diff(edges)
    np.testing.assert_allclose(back, x, rtol=1e-6)
    assert len(encoder.edges_[2]) == 2  # binary: one bin


def test_blocks_of_rows_do_not_matter(monkeypatch, graph):
    data, train = graph
    for encoder in ENCODERS:
        whole = encoder.fit(data, train)(data).x
        with monkeypatch.context() as patch:
            patch.setattr('torch_energy_graph.transforms.encoder.ROWS', 7)
            assert torch.equal(encoder(data).x, whole)
