import pytest
import torch

from torch_geometric.utils import (
    contains_isolated_nodes,
    contains_self_loops,
    degree,
    is_undirected,
)

from torch_energy_graph.testing import (
    disjoint_union,
    hub_graph,
    in_star,
    out_star,
    random_graph,
    standard_graphs,
)


def test_stars_by_hand():
    assert in_star(3).edge_index.tolist() == [[1, 2, 3], [0, 0, 0]]
    assert out_star(3).edge_index.tolist() == [[0, 0, 0], [1, 2, 3]]
    assert in_star(0).num_nodes == 1


def test_hub_reads_and_is_read_by_everybody():
    graph = hub_graph(6, 0)
    src, dst = graph.edge_index
    assert degree(src, 6).tolist() == [5, 1, 1, 1, 1, 1]
    assert degree(dst, 6).tolist() == [5, 1, 1, 1, 1, 1]
    assert hub_graph(6, 4).num_edges == 14


def test_random_graph_depends_on_its_seed_only():
    first, again = random_graph(9, 30, 1), random_graph(9, 30, 1)
    assert torch.equal(first.edge_index, again.edge_index)
    other = random_graph(9, 30, 2)
    assert not torch.equal(first.edge_index, other.edge_index)


@pytest.mark.parametrize('multi_edges', [True, False])
def test_all_pairs_can_be_drawn_without_self_loops(multi_edges):
    num_edges = 5000 if multi_edges else 20
    graph = random_graph(
        7, num_edges, self_loops=False, multi_edges=multi_edges, num_isolated=2
    )
    pairs = set(map(tuple, graph.edge_index.t().tolist()))
    assert pairs == {(a, b) for a in range(5) for b in range(5) if a != b}
    assert graph.num_edges == num_edges
    assert contains_isolated_nodes(graph.edge_index, 7)


def test_self_loops_can_be_drawn():
    graph = random_graph(3, 9, multi_edges=False)
    assert contains_self_loops(graph.edge_index)
    assert graph.is_coalesced() or graph.coalesce().num_edges == 9


@pytest.mark.parametrize(
    ('num_nodes', 'num_edges', 'options'),
    [
        (0, 1, {}),
        (1, 1, {'self_loops': False}),
        (3, 10, {'multi_edges': False}),
        (3, 1, {'num_isolated': 3}),
    ],
)
def test_too_many_edges(num_nodes, num_edges, options):
    with pytest.raises(ValueError, match='expected at most'):
        random_graph(num_nodes, num_edges, **options)


def test_union_keeps_edges_and_shifts_nodes():
    union = disjoint_union([in_star(1), out_star(2)])
    assert union.edge_index.tolist() == [[1, 2, 2], [0, 3, 4]]
    assert union.batch.tolist() == [0, 0, 1, 1, 1]
    assert union.n_id.tolist() == [0, 1, 2, 3, 4]


def test_shuffled_union_is_the_union_under_other_names():
    graphs = [random_graph(5, 12, seed) for seed in range(3)]
    union, shuffled = disjoint_union(graphs), disjoint_union(graphs, 0)
    assert not torch.equal(shuffled.batch, shuffled.batch.sort().values)
    assert torch.equal(shuffled.n_id[shuffled.edge_index], union.edge_index)
    assert torch.equal(union.batch[shuffled.n_id], shuffled.batch)


def test_standard_graphs_are_what_their_names_say():
    graphs = standard_graphs()
    assert is_undirected(graphs['undirected'].edge_index)
    multi = graphs['directed multigraph']
    assert not is_undirected(multi.edge_index)
    assert multi.edge_index.unique(dim=1).size(1) < multi.num_edges
    assert contains_isolated_nodes(multi.edge_index, multi.num_nodes)
    assert graphs['no nodes'].num_nodes == 0
    assert graphs['no edges'].num_edges == 0
    assert graphs['one edge five times'].num_edges == 5
    for graph in graphs.values():
        graph.validate(raise_on_error=True)
