import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric.data import Data

from tests.distributed.graphs import owners, random_graph
from torch_energy_graph.distributed import ShardedGraph


@st.composite
def cuts(draw):
    num_nodes, world_size = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    rank = st.integers(0, world_size - 1)
    owner = draw(st.lists(rank, min_size=num_nodes, max_size=num_nodes))
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    data = Data(
        x=torch.arange(1.0 * num_nodes).view(-1, 1),
        edge_index=edge_index,
        edge_weight=torch.arange(1.0 * len(edges)),
    )
    return data, torch.tensor(owner), world_size


@given(cuts())
def test_parts_are_the_graph(cut):
    data, owner, world_size = cut
    parts = [
        ShardedGraph.from_data(data, rank, world_size, owner)
        for rank in range(world_size)
    ]
    for rank, part in enumerate(parts):
        assert part.n_id.tolist() == (owner == rank).nonzero()[:, 0].tolist()
        assert part.data.x[:, 0].tolist() == part.n_id.tolist()
        rows = torch.cat([part.n_id, part.halo_id])
        assert rows.unique().numel() == rows.numel()
        local = rows[part.edge_index]
        mine = owner[data.edge_index[1]] == rank
        assert local.tolist() == data.edge_index[:, mine].tolist()
        assert part.edge_id.tolist() == mine.nonzero()[:, 0].tolist()
        assert part.edge_weight.tolist() == data.edge_weight[mine].tolist()
        # nothing is sent that isn't read
        assert (
            part.halo_id.numel()
            == local[0, owner[local[0]] != rank].unique().numel()
        )
        received = torch.cat(
            [
                other.n_id[other.send_index].split(other.send_counts)[rank]
                for other in parts
            ]
        )
        assert received.tolist() == part.halo_id.tolist()
        counts = [other.send_counts[rank] for other in parts]
        assert counts == part.recv_counts


def test_blocks_by_default():
    data = random_graph(7, 20)
    ids = [ShardedGraph.from_data(data, r, 3).n_id.tolist() for r in range(3)]
    assert ids == [[0, 1, 2], [3, 4], [5, 6]]


def test_attributes_are_those_of_the_owned_nodes():
    data = random_graph(6, 6)  # as many edges as nodes
    data.edge_attr, data.name = torch.ones(6, 2), 'six'
    data.y = torch.rand(6, 5)  # regression on five targets
    part = ShardedGraph.from_data(data, 1, 2)
    assert sorted(part.data.keys()) == ['num_nodes', 'x', 'y']
    assert part.data.y.tolist() == data.y[3:].tolist()


@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        ({'rank': 2}, 'expected 0 <= rank < world_size'),
        ({'owner': torch.zeros(3, dtype=torch.long)}, 'owner for each of 7'),
        ({'owner': torch.zeros(7)}, 'integer owner'),
        ({'owner': torch.arange(7)}, 'owners 0 to 1'),
    ],
)
def test_bad_cuts(kwargs, match):
    kwargs = {'rank': 0, 'world_size': 2, **kwargs}
    with pytest.raises(ValueError, match=match):
        ShardedGraph.from_data(random_graph(7, 20), **kwargs)


def test_bad_weights():
    data = random_graph(7, 20)
    data.edge_weight = data.edge_weight.view(20, 1)
    with pytest.raises(ValueError, match=r'edge_weight of shape \[20\]'):
        ShardedGraph.from_data(data, 0, 2)


def rows_of_the_halo(rank, world_size):
    data = random_graph(23, 90)
    owner = owners(23, world_size, seed=1)
    parts = [
        ShardedGraph.from_data(data, r, world_size, owner)
        for r in range(world_size)
    ]
    x = data.x.requires_grad_()
    rows = [x.sin()[torch.cat([p.n_id, p.halo_id])] for p in parts]
    losses = [(r + 1) * out.pow(3).sum() for r, out in enumerate(rows)]
    grads = torch.autograd.grad(sum(losses), x, create_graph=True)[0]
    second = torch.autograd.grad(grads.square().sum(), x)[0]

    graph = parts[rank]
    graph.verify()
    x = x[graph.n_id].detach().requires_grad_()
    out = graph.with_halo(x.sin())
    close = {'rtol': 1e-14, 'atol': 1e-12}
    torch.testing.assert_close(out, rows[rank], **close)
    loss = (rank + 1) * out.pow(3).sum()
    (ours,) = torch.autograd.grad(loss, x, create_graph=True)
    torch.testing.assert_close(ours, grads[graph.n_id], **close)
    (ours,) = torch.autograd.grad(ours.square().sum(), x)
    torch.testing.assert_close(ours, second[graph.n_id], **close)


def rows_of_all_nodes(rank, world_size):
    data = random_graph(23, 90)
    owner = owners(23, world_size, seed=2)
    graph = ShardedGraph.from_data(data, rank, world_size, owner)
    assert graph.whole(graph.data.x).tolist() == data.x.tolist()
    assert graph.whole(graph.data.y).tolist() == data.y.tolist()
    x = graph.data.x.requires_grad_()
    (graph.whole(x) * data.x).sum().backward()
    # each of the ranks has a loss of its own
    assert x.grad.tolist() == (world_size * x).tolist()


def refusals(rank, world_size):
    data = random_graph(9, 30, seed=rank)
    with pytest.raises(ValueError, match='ranks disagree'):
        ShardedGraph.from_data(data, rank, world_size).verify()
    data = random_graph(9 + rank, 0)
    with pytest.raises(ValueError, match='ranks disagree'):
        ShardedGraph.from_data(data, rank, world_size).verify()
    # the same counts, other nodes
    ends = [[0, 2], [2, 1]] if rank else [[1, 2], [2, 0]]
    data = Data(x=torch.ones(4, 1), edge_index=torch.tensor(ends))
    with pytest.raises(ValueError, match='ranks disagree'):
        ShardedGraph.from_data(data, rank, world_size).verify()
    graph = ShardedGraph.from_data(random_graph(9, 30), rank, world_size)
    with pytest.raises(ValueError, match='nodes that this rank owns'):
        graph.with_halo(torch.ones(9, 2))


@pytest.mark.parametrize('world_size', [2, 3])
@pytest.mark.parametrize('check', [rows_of_the_halo, rows_of_all_nodes])
def test_rows_of_others(ranks, world_size, check):
    ranks.run(world_size, check)


def test_refusals(ranks):
    ranks.run(2, refusals)
