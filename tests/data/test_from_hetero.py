import pytest
import torch

from torch_geometric.data import Data, HeteroData

from torch_energy_graph.data import check_graph
from torch_energy_graph.data.from_hetero import from_hetero


@pytest.fixture
def graph():
    data = HeteroData()
    data['user'].x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    data['user'].y = torch.tensor([1, 0])
    data['user'].train_mask = torch.tensor([True, False])
    data['shop'].x = torch.tensor([[5.0]])
    data['user', 'knows', 'user'].edge_index = torch.tensor([[0], [1]])
    data['user', 'buys', 'shop'].edge_index = torch.tensor([[0, 1], [0, 0]])
    return data


def test_by_hand(graph):
    data = from_hetero(graph)
    check_graph(data)
    assert data.x.tolist() == [
        [1, 2, 0, 1, 0],
        [3, 4, 0, 1, 0],
        [0, 0, 5, 0, 1],
    ]
    assert data.y.tolist() == [1, 0, -1]
    assert data.train_mask.tolist() == [True, False, False]
    assert data.node_type.tolist() == [0, 0, 1]
    assert data.node_id == ['user:0', 'user:1', 'shop:0']
    assert data.edge_index.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert data.edge_type.tolist() == [0, 1, 1]


def test_a_later_graph_keeps_the_numbers_of_the_relations(graph):
    metadata = graph.metadata()
    del graph['user', 'knows', 'user']
    assert from_hetero(graph, metadata).edge_type.tolist() == [1, 1]
    graph['shop', 'near', 'shop'].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(ValueError, match='expected relations among'):
        from_hetero(graph, metadata)
    del graph['shop', 'near', 'shop'], graph['user', 'buys', 'shop']
    data = from_hetero(graph, metadata)
    assert data.edge_index.shape == (2, 0)
    del graph['shop']
    with pytest.raises(ValueError, match='expected the node types user, sh'):
        from_hetero(graph, metadata)


def test_a_single_type_stays_as_it_is():
    data = HeteroData()
    data['n'].x, data['n'].node_id = torch.ones(2, 3), ['a', 'b']
    data['n', 'to', 'n'].edge_index = torch.tensor([[0], [1]])
    data['n', 'to', 'n'].edge_attr = torch.ones(1, 4)
    joined = from_hetero(data)
    assert torch.equal(joined.x, data['n'].x)
    assert joined.node_id == ['a', 'b']
    assert joined.edge_attr.shape == (1, 4)


def test_errors(graph):
    with pytest.raises(TypeError, match="got 'Data'"):
        from_hetero(Data())
    graph['user', 'knows', 'user'].edge_attr = torch.ones(1, 4)
    with pytest.raises(ValueError, match='edge_attr of shape'):
        from_hetero(graph)
    graph['user'].y = torch.tensor([0.0, 1.0])
    with pytest.raises(ValueError, match=r"integer labels y.*'user'"):
        from_hetero(graph)
    del graph['shop'].x
    with pytest.raises(ValueError, match=r"features x.*'shop'"):
        from_hetero(graph)
