import pytest
import torch

from torch_energy_graph.nn.models.temporal_difformer import TemporalDIFFormer
from torch_energy_graph.testing import random_graph


def make(**kwargs):
    torch.manual_seed(0)
    model = TemporalDIFFormer(3, 8, **kwargs).double().eval()
    if model.skip is not None:
        model.skip.data.copy_(torch.tensor([0.5, -1.0, 2.0]))
    return model


def inputs(num_nodes=7):
    gen = torch.Generator().manual_seed(1)
    x = torch.randn(num_nodes, 3, dtype=torch.double, generator=gen)
    return x, random_graph(num_nodes, 20).edge_index


def test_it_is_the_network_plus_a_linear_term():
    x, edge_index = inputs()
    model = make()
    deep = model.net(x, edge_index)[:, 0]
    linear = 0.5 * x[:, 0] - x[:, 1] + 2 * x[:, 2]
    torch.testing.assert_close(model(x, edge_index), deep + linear)
    plain = make(linear_skip=False)
    torch.testing.assert_close(plain(x, edge_index), deep)
    assert 'skip' not in plain.state_dict()


@pytest.mark.parametrize('kernel', ['simple', 'sigmoid'])
@pytest.mark.parametrize('use_graph', [True, False])
def test_a_window_gets_in_a_batch_what_it_gets_alone(kernel, use_graph):
    model = make(kernel=kernel, use_graph=use_graph)
    (x, edges), (y, more) = inputs(7), inputs(4)
    both = model(
        torch.cat([x, y]),
        torch.cat([edges, more + 7], dim=1),
        batch=torch.tensor([0] * 7 + [1] * 4),
        batch_size=2,
    )
    alone = torch.cat([model(x, edges), model(y, more)])
    torch.testing.assert_close(both, alone, rtol=0, atol=1e-12)
    assert both.shape == (11,)


def test_a_graph_is_used_or_not_needed():
    x, edge_index = inputs()
    without = make(use_graph=False)
    assert torch.equal(without(x), without(x, edge_index))
    model = make()
    flipped = model(x, edge_index.flip(0))
    assert not torch.allclose(model(x, edge_index), flipped)
    weight = torch.linspace(0.1, 3.0, edge_index.size(1)).double()
    weighted = model(x, edge_index, weight)
    assert not torch.allclose(model(x, edge_index), weighted)
    with pytest.raises(ValueError, match='use_graph=False'):
        model(x)


def test_linear_weights_start_at_zero_again():
    model = make()
    model.reset_parameters()
    assert model.skip.tolist() == [0.0, 0.0, 0.0]
    assert make().net.head.weight.abs().sum() > 0


def test_gradients_reach_every_weight():
    x, edge_index = inputs()
    model = make()
    model(x, edge_index).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize('shape', [(7,), (7, 4), (5, 7, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r'shape \[N, 3\].*sliding_windows'):
        make(use_graph=False)(torch.zeros(shape).double())
    with pytest.raises(ValueError, match='lags >= 1'):
        TemporalDIFFormer(0, 8)
