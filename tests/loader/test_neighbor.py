import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from torch_energy_graph.loader import NeighborLoader


def graph(num_nodes=30, num_edges=120, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, 4, generator=gen).double(),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=gen),
        edge_weight=torch.arange(num_edges).double(),
        y=torch.arange(num_nodes),
        name='kept',
    )


def loader(data, num_neighbors, seed=0, **kwargs):
    gen = torch.Generator().manual_seed(seed)
    return NeighborLoader(data, num_neighbors, generator=gen, **kwargs)


def test_one_batch_by_hand():
    # 1 -> 0, 2 -> 0, 3 -> 1, 0 -> 2 and 2 -> 3, which is too far from 0
    edge_index = torch.tensor([[1, 2, 3, 0, 2], [0, 0, 1, 2, 3]])
    data = Data(x=torch.arange(4.0).view(-1, 1), edge_index=edge_index)
    (batch,) = loader(data, [-1, -1], input_nodes=torch.tensor([0]))
    assert batch.n_id.tolist() == [0, 1, 2, 3]
    assert sorted(batch.e_id.tolist()) == [0, 1, 2, 3]
    assert batch.batch_size == 1
    assert batch.input_id.tolist() == [0]


@given(
    st.integers(1, 20),
    st.integers(0, 80),
    st.lists(st.sampled_from([-1, 0, 1, 3]), min_size=1, max_size=3),
    st.integers(1, 7),
    st.integers(0, 5),
)
def test_batches_are_aligned_samples(nodes, edges, fan_out, size, seed):
    data = graph(nodes, edges, seed)
    gen = torch.Generator().manual_seed(seed)
    wanted = torch.randperm(nodes, generator=gen)[: (nodes + 1) // 2]
    batches = list(
        loader(data, fan_out, seed, input_nodes=wanted, batch_size=size)
    )
    assert len(batches) == -(-wanted.numel() // size)
    seeds = [batch.n_id[: batch.batch_size] for batch in batches]
    assert torch.equal(torch.cat(seeds), wanted)  # unsorted, as given
    for batch in batches:
        assert torch.equal(
            wanted[batch.input_id], batch.n_id[: len(batch.input_id)]
        )
        assert batch.n_id.unique().numel() == batch.num_nodes
        assert batch.e_id.unique().numel() == batch.num_edges
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, data.y[batch.n_id])
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        ends = batch.n_id[batch.edge_index]
        assert torch.equal(ends, data.edge_index[:, batch.e_id])
        assert batch.name == 'kept'


@pytest.mark.parametrize('count', [0, 1, 2, 5, -1])
def test_every_node_gets_its_number_of_in_edges(count):
    data = graph(num_edges=200)
    (batch,) = loader(data, [count], batch_size=30)
    found = torch.bincount(batch.edge_index[1], minlength=30)
    degree = torch.bincount(data.edge_index[1], minlength=30)
    expected = degree if count == -1 else degree.clamp(max=count)
    assert torch.equal(found[batch.n_id.argsort()], expected)


def test_all_in_edges_are_drawn_alike():
    # each of 3,000 nodes draws two of its six in-edges
    hubs = torch.arange(6, 3006)
    leaves = torch.arange(6).repeat(3000)
    edge_index = torch.stack([leaves, hubs.repeat_interleave(6)])
    data = Data(x=torch.zeros(3006, 1), edge_index=edge_index)
    (batch,) = loader(data, [2], input_nodes=hubs, batch_size=3000)
    drawn = torch.bincount(data.edge_index[0, batch.e_id], minlength=6)
    # 1,000 expected each, with a standard deviation below 26
    assert (drawn[:6] - 1000).abs().max() < 130


def test_full_fan_out_gives_seeds_the_outputs_of_the_full_graph():
    data = graph(num_edges=90)
    model = GraphSAGE(4, 8, num_layers=2, out_channels=3).double().eval()
    expected = model(data.x, data.edge_index)
    mask = data.y % 3 == 0
    for batch in loader(data, [-1, -1], input_nodes=mask, batch_size=4):
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        seeds = batch.n_id[: batch.batch_size]
        torch.testing.assert_close(out, expected[seeds])
    (short,) = loader(data, [-1], batch_size=30, input_nodes=mask)
    out = model(short.x, short.edge_index)[: short.batch_size]
    assert not torch.allclose(out, expected[mask])  # one hop is not two


def test_gcn_is_exact_with_weights_of_the_full_graph():
    data = graph(num_edges=90)
    model = GCN(4, 8, num_layers=2, out_channels=3).double().eval()
    expected = model(data.x, data.edge_index)
    data.edge_index, data.edge_weight = gcn_norm(
        data.edge_index, num_nodes=30, dtype=torch.double
    )
    for conv in model.convs:
        conv.normalize = False
    for batch in loader(data, [-1, -1], batch_size=7):
        out = model(batch.x, batch.edge_index, batch.edge_weight)
        seeds = batch.n_id[: batch.batch_size]
        torch.testing.assert_close(out[: batch.batch_size], expected[seeds])


def test_same_seed_same_batches():
    def epochs(seed):
        it = loader(graph(), [2, 2], seed, batch_size=8, shuffle=True)
        return [[(b.n_id.tolist(), b.e_id.tolist()) for b in it] for _ in '12']

    assert epochs(0) == epochs(0)
    assert epochs(0) != epochs(1)
    first, second = epochs(0)
    assert first != second


@pytest.mark.parametrize(
    ('change', 'error', 'message'),
    [
        ({'num_neighbors': []}, ValueError, 'one number per hop'),
        ({'num_neighbors': [-2]}, ValueError, r'\(got \[-2\]\)'),
        ({'batch_size': 0}, ValueError, "'batch_size' >= 1"),
        ({'input_nodes': torch.tensor([1, 1])}, ValueError, '1 repeated'),
        ({'input_nodes': torch.tensor([30])}, IndexError, 'from 0 to 29'),
        ({'input_nodes': torch.ones(3).bool()}, ValueError, r'mask \[30\]'),
    ],
)
def test_bad_arguments(change, error, message):
    arguments = {'num_neighbors': [1], **change}
    with pytest.raises(error, match=message):
        NeighborLoader(graph(), **arguments)
