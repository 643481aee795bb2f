import pytest

from torch_energy_graph.data.from_networkx import from_networkx
from torch_energy_graph.data.tables import TableLayout

networkx = pytest.importorskip('networkx')
pytest.importorskip('pandas')


def test_attributes_are_columns():
    graph = networkx.Graph()
    graph.add_node('a', size=1.5, label=1)
    graph.add_node('b', size=2.5, label=0)
    graph.add_node('c', size=None)
    graph.add_edge('a', 'b', sum=3)
    graph.add_edge('c', 'c', sum=4)
    table = from_networkx(graph)
    assert table.node_id == ['a', 'b', 'c']
    assert table.y.tolist() == [1, 0, -1]
    assert table.edge_index.tolist() == [[0, 2, 1], [1, 2, 0]]
    assert table.edges.frame['sum'].tolist() == [3, 4, 3]


def test_directed_multigraphs_with_types():
    graph = networkx.MultiDiGraph()
    graph.add_edge(7, 9, kind='p')
    graph.add_edge(7, 9, kind='q')
    table = from_networkx(graph, TableLayout(relation='kind'))
    assert table.node_id == [7, 9]
    assert table.edge_index.tolist() == [[0, 0], [1, 1]]
    assert table.edge_type.tolist() == [0, 1]


def test_graphs_without_edges_and_without_nodes():
    graph = networkx.empty_graph(2)
    assert from_networkx(graph).edge_index.shape == (2, 0)
    with pytest.raises(ValueError, match='no rows'):
        from_networkx(networkx.Graph())


def test_names_that_clash():
    graph = networkx.Graph()
    graph.add_node('a', id=3)
    with pytest.raises(ValueError, match="attribute is named 'id'"):
        from_networkx(graph)
    assert from_networkx(graph, TableLayout(id='key')).node_id == ['a']
