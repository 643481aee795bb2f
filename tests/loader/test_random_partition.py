import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric.data import Data

from torch_energy_graph.loader import RandomPartitionLoader


def graph(num_nodes=10, num_edges=60, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.arange(num_nodes).float().view(-1, 1),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=gen),
        edge_attr=torch.arange(num_edges),
        y=torch.arange(num_nodes) % 2,
    )


def loader(data, num_parts, seed=0, **kwargs):
    gen = torch.Generator().manual_seed(seed)
    return RandomPartitionLoader(data, num_parts, generator=gen, **kwargs)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 40))
def test_parts_are_a_partition(num_parts, num_nodes, num_edges):
    num_parts = min(num_parts, num_nodes)
    data = graph(num_nodes, num_edges)
    parts = list(loader(data, num_parts))
    assert len(parts) == len(loader(data, num_parts)) == num_parts
    n_id = torch.cat([part.n_id for part in parts])
    assert n_id.sort().values.tolist() == list(range(num_nodes))
    sizes = [part.num_nodes for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_subgraphs_hold_exactly_the_inner_edges():
    data = graph()
    for part in loader(data, 3):
        assert part.x.view(-1).tolist() == part.n_id.tolist()
        assert part.y.tolist() == data.y[part.n_id].tolist()
        inside = torch.isin(data.edge_index, part.n_id).all(0)
        expected = data.edge_index[:, inside]
        assert part.n_id[part.edge_index].tolist() == expected.tolist()
        assert part.edge_attr.tolist() == data.edge_attr[inside].tolist()


def test_new_partition_every_epoch_and_same_seed_same_parts():
    def epochs(seed):
        it = loader(graph(), 2, seed)
        return [[p.n_id.tolist() for p in it] for _ in range(3)]

    first, second, _ = epochs(0)
    assert first != second
    assert epochs(0) == epochs(0)
    assert epochs(0) != epochs(1)


def test_without_shuffle_parts_are_blocks():
    parts = loader(graph(5), 2, shuffle=False)
    for _ in range(2):
        assert [p.n_id.tolist() for p in parts] == [[0, 1, 2], [3, 4]]


@given(st.integers(1, 6), st.integers(0, 30), st.integers(0, 9))
def test_the_share_of_edges_is_that_of_the_last_epoch(parts, edges, seed):
    it = loader(graph(6, edges, seed), parts, seed)
    assert it.edge_share is None
    for _ in range(2):
        kept = sum(part.num_edges for part in it)
        assert it.edge_share == (kept / edges if edges else 1.0)


def test_the_expected_share_is_the_mean_over_all_partitions():
    data = graph(5, 12)
    src, dst = data.edge_index
    for num_parts in (1, 2, 3, 5):
        part = torch.arange(5).tensor_split(num_parts)
        part = torch.cat(
            [p.new_full((len(p),), i) for i, p in enumerate(part)]
        )
        shares = []
        for order in itertools.permutations(range(5)):
            label = part[list(order)]
            shares.append((label[src] == label[dst]).double().mean())
        expected = float(torch.stack(shares).mean())
        found = loader(data, num_parts).expected_edge_share
        assert found == pytest.approx(expected, abs=1e-12)


def test_unsorted_subsets_stay_aligned():
    # some older versions of PyG relabelled unsorted subsets wrongly
    data = graph()
    subset = torch.tensor([7, 2, 9, 0, 4])
    sub = data.subgraph(subset)
    assert sub.x.view(-1).tolist() == subset.tolist()
    inside = torch.isin(data.edge_index, subset).all(0)
    assert torch.equal(subset[sub.edge_index], data.edge_index[:, inside])
    assert torch.equal(sub.edge_attr, data.edge_attr[inside])


@pytest.mark.parametrize('num_parts', [0, 11])
def test_bad_number_of_parts(num_parts):
    with pytest.raises(ValueError, match='1 <= num_parts <= 10'):
        RandomPartitionLoader(graph(), num_parts)
