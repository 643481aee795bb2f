import pytest
import torch

from torch_geometric.data import Data
from torch_geometric.transforms import (
    AddLaplacianEigenvectorPE,
    AddRandomWalkPE,
)

from torch_energy_graph.nn.models import EnergyAnomalyDetector
from torch_energy_graph.testing import random_graph


def test_logits_come_from_the_first_and_the_last_token():
    torch.manual_seed(0)
    model = EnergyAnomalyDetector(3, hidden_channels=8, heads=2, num_steps=2)
    graph = random_graph(7, 20)
    x = torch.randn(7, 3)
    first = model.embedding(x)
    last = model.block(first, graph.edge_index)
    tokens = torch.cat([model.block.norm(first), model.block.norm(last)], -1)
    expected = model.head(tokens).view(7)
    torch.testing.assert_close(model(x, graph.edge_index), expected)


def test_trace_is_that_of_the_block():
    model = EnergyAnomalyDetector(3, 8, heads=2, step_size='auto').double()
    graph = random_graph(7, 20)
    x = torch.randn(7, 3, dtype=torch.double)
    logits, trace = model(x, graph.edge_index, return_trace=True)
    torch.testing.assert_close(logits, model(x, graph.edge_index))
    assert trace.energy.shape == (5,)
    assert trace.is_monotone(1e-10)


@pytest.mark.parametrize(
    ('transform', 'name'),
    [
        (AddRandomWalkPE(4), 'random_walk_pe'),
        (AddLaplacianEigenvectorPE(4, is_undirected=True),
         'laplacian_eigenvector_pe'),
    ],
)  # fmt: skip
def test_positional_encodings_of_pyg(transform, name):
    graph = random_graph(12, 30, self_loops=False)
    both = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    data = transform(Data(x=torch.randn(12, 3), edge_index=both))
    model = EnergyAnomalyDetector(3, 8, heads=2, pe_channels=4)
    with_pe = model(data.x, data.edge_index, pe=data[name])
    without = model(data.x, data.edge_index, pe=torch.zeros(12, 4))
    assert with_pe.shape == (12,)
    assert not torch.allclose(with_pe, without)


def test_positional_encodings_are_all_or_nothing():
    graph = random_graph(7, 20)
    x = torch.randn(7, 3)
    with pytest.raises(ValueError, match="built with 'pe_channels'"):
        EnergyAnomalyDetector(3)(x, graph.edge_index, pe=torch.ones(7, 2))
    with pytest.raises(ValueError, match='pe_channels=2'):
        EnergyAnomalyDetector(3, pe_channels=2)(x, graph.edge_index)


def test_it_learns_what_only_the_neighbours_show():
    """A node is anomalous if its neighbours have a positive feature."""
    torch.manual_seed(0)
    graph = random_graph(200, 600, self_loops=False)
    x = torch.randn(200, 1)
    src, dst = graph.edge_index
    mean = torch.zeros(200).scatter_reduce(
        0, dst, x[src, 0], 'mean', include_self=False
    )
    y = (mean > 0).float()
    model = EnergyAnomalyDetector(1, 16, heads=2, step_size=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        logits = model(x, graph.edge_index)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y)
        loss.backward()
        optimizer.step()
    accuracy = ((model(x, graph.edge_index) > 0) == (y > 0)).float().mean()
    assert accuracy > 0.95


def test_lazy_features_and_reset():
    model = EnergyAnomalyDetector(-1, 8, heads=2)
    graph = random_graph(7, 20)
    model(torch.randn(7, 5), graph.edge_index)
    assert model.embedding.weight.shape == (8, 5)
    torch.manual_seed(3)
    model.reset_parameters()
    once = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(3)
    model.reset_parameters()
    for name, value in model.state_dict().items():
        assert torch.equal(value, once[name])


def test_side_features_reach_their_own_node_only():
    torch.manual_seed(0)
    model = EnergyAnomalyDetector(3, 8, heads=2, side_channels=2).double()
    graph = random_graph(7, 20)
    x, side = torch.randn(7, 3).double(), torch.randn(7, 2).double()
    jacobian = torch.autograd.functional.jacobian(
        lambda side: model(x, graph.edge_index, side=side), side
    )  # [N, N, 2]
    own = torch.eye(7, dtype=torch.bool)
    assert (jacobian[own] != 0).all()
    assert (jacobian[~own] == 0).all()
    with pytest.raises(ValueError, match="built with 'side_channels'"):
        model(x, graph.edge_index)


def test_an_embedding_of_several_layers():
    model = EnergyAnomalyDetector(3, 8, heads=2, embedding_layers=2).eval()
    x = torch.randn(7, 3)
    hidden = x
    for linear, norm in zip(
        model.embedding.lins, model.embedding.norms, strict=True
    ):
        hidden = norm(linear(hidden)).relu()
    torch.testing.assert_close(model.embed(x), hidden)
    with pytest.raises(ValueError, match="'embedding_layers' >= 1"):
        EnergyAnomalyDetector(3, embedding_layers=0)
