import pytest
import torch

from torch_geometric.data import Batch, Data
from torch_geometric.nn.aggr import MultiAggregation, SoftmaxAggregation
from torch_geometric.transforms import (
    AddLaplacianEigenvectorPE,
    AddRandomWalkPE,
)

from tests.nn.models.energy_transformers import FULL, build, inputs
from torch_energy_graph.nn import HopfieldAggregation
from torch_energy_graph.nn.models.energy_transformer import EnergyTransformer
from torch_energy_graph.testing import (
    disjoint_union,
    random_graph,
)

READOUTS = [None, 'cls', 'sum', SoftmaxAggregation(learn=True)]


def test_it_is_embedding_blocks_norm_and_head():
    model = build(num_blocks=2, pe_channels=4)
    graph = random_graph(7, 20)
    given = inputs(graph)
    x = model.embedding(given['x']) + model.pe_embedding(given['pe'])
    for block in model.blocks:
        x = block(x, graph.edge_index)
    expected = model.head(model.blocks[1].norm(x))
    out = model(given['x'], graph.edge_index, pe=given['pe'])
    torch.testing.assert_close(out, expected)


def test_class_token_is_a_node_that_all_nodes_see():
    model = build('cls', edge_dim=2, modulation_channels=3)
    graph = random_graph(4, 9, seed=1)
    given = inputs(graph)
    x, attr = given['x'], given['edge_attr']
    first = torch.cat([model.embedding(x), model.token.weight.view(1, 8)])
    spokes = torch.tensor([[0, 1, 2, 3, 4, 4, 4, 4], [4, 4, 4, 4, 0, 1, 2, 3]])
    edges = torch.cat([graph.edge_index, spokes], dim=1)
    attr = torch.cat([attr, torch.zeros(8, 2, dtype=torch.double)])
    state, weights = first, model.modulation(first, edges, attr)
    for block in model.blocks:
        state = block(state, edges, edge_attr=weights)
    expected = model.head(model.blocks[-1].norm(state)[4:])  # [1, 5]
    out = model(x, graph.edge_index, edge_attr=given['edge_attr'])
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize('readout', READOUTS, ids=str)
@pytest.mark.parametrize('step_size', [0.3, 'auto'])
def test_numbering_of_nodes_and_edges_does_not_matter(readout, step_size):
    model = build(readout, step_size=step_size, **FULL)
    graph = random_graph(8, 30, seed=1)
    given = inputs(graph)
    out = model(edge_index=graph.edge_index, **given)
    perm, order = torch.randperm(8), torch.randperm(30)
    moved = model(
        given['x'][perm],
        perm.argsort()[graph.edge_index[:, order]],
        edge_attr=given['edge_attr'][order],
        pe=given['pe'][perm],
    )
    expected = out[perm] if readout is None else out
    torch.testing.assert_close(moved, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize('readout', READOUTS, ids=str)
@pytest.mark.parametrize('batch_size', [None, 4])
def test_a_batch_of_graphs_is_the_graphs_alone(readout, batch_size):
    model = build(readout, step_size='auto', **FULL)
    graphs = [random_graph(6, 20, seed=s) for s in range(3)]
    graphs.insert(2, random_graph(1, 0))
    union = disjoint_union(graphs, shuffle_seed=7)
    alone = [inputs(graph, seed=s) for s, graph in enumerate(graphs)]
    nodes = {
        key: torch.cat([one[key] for one in alone])[union.n_id]
        for key in ('x', 'pe')
    }
    attr = torch.cat([one['edge_attr'] for one in alone])
    out, traces = model(
        edge_index=union.edge_index,
        edge_attr=attr,
        batch=union.batch,
        batch_size=batch_size,
        return_trace=True,
        **nodes,
    )
    for b, (graph, given) in enumerate(zip(graphs, alone, strict=True)):
        expected, one = model(
            edge_index=graph.edge_index, return_trace=True, **given
        )
        mine = out[b : b + 1]
        if readout is None:
            mine = out[union.batch == b]
            mine = mine[union.n_id[union.batch == b].argsort()]
        torch.testing.assert_close(mine, expected, rtol=1e-10, atol=1e-10)
        for trace, of_graph in zip(traces, one, strict=True):
            torch.testing.assert_close(trace.energy[:, b], of_graph.energy)


@pytest.mark.parametrize('readout', [None, 'cls', 'mean'])
def test_energy_of_every_graph_falls(readout):
    model = build(readout, num_blocks=3, num_steps=6, step_size='auto', **FULL)
    with torch.no_grad():  # far from the small weights of the start
        for name, weight in model.named_parameters():
            if 'weight_q' in name or 'weight_k' in name:
                weight.mul_(6)
    union = disjoint_union([random_graph(9, 40, seed=s) for s in range(3)])
    _, traces = model(
        edge_index=union.edge_index,
        batch=union.batch,
        batch_size=3,
        return_trace=True,
        **inputs(union),
    )
    assert [trace.energy.shape for trace in traces] == 3 * [(7, 3)]
    for trace in traces:
        assert trace.is_monotone(1e-12)
        assert (trace.energy[-1] < trace.energy[0]).all()


@pytest.mark.parametrize('readout', [None, 'cls'])
def test_gradcheck(readout):
    model = build(
        readout, num_blocks=1, heads=1, step_size='learn', beta='learn', **FULL
    )
    graph = random_graph(4, 8, seed=2)
    given = {k: v.requires_grad_() for k, v in inputs(graph).items()}
    names, weights = zip(*model.named_parameters(), strict=True)

    def function(x, attr, pe, *weights):
        return torch.func.functional_call(
            model,
            dict(zip(names, weights, strict=True)),
            (x, graph.edge_index, None, attr, pe),
        )

    values = [v.detach().clone().requires_grad_() for v in weights]
    inside = (*given.values(), *values)
    assert torch.autograd.gradcheck(function, inside, fast_mode=True)


def test_modulation_uses_the_first_tokens_only():
    """Then it is a constant of every energy of the descent."""
    model = build(num_blocks=2, modulation_channels=3)
    seen = []
    model.modulation.register_forward_pre_hook(
        lambda _, args: seen.append(args[0])
    )
    graph = random_graph(7, 20)
    x = inputs(graph)['x']
    model(x, graph.edge_index)
    assert len(seen) == 1
    torch.testing.assert_close(seen[0], model.embedding(x))


@pytest.mark.parametrize(
    ('readout', 'width'),
    [
        ('mean', 8),
        (MultiAggregation(['mean', 'max', 'std']), 24),
        (HopfieldAggregation(8, 6, num_states=2), 12),
    ],
    ids=['mean', 'multi', 'hopfield'],
)
def test_any_aggregation_reads_out(readout, width):
    model = EnergyTransformer(3, 8, 5, heads=2, readout=readout)
    union = disjoint_union([random_graph(6, 20, seed=s) for s in range(2)])
    out = model(torch.randn(12, 3), union.edge_index, batch=union.batch)
    assert out.shape == (2, 5)
    assert model.head.in_channels == width


def test_positions_of_pyg_and_their_signs():
    gen = torch.Generator().manual_seed(0)
    graphs = []
    for seed in range(3):
        graph = random_graph(9, 12, seed, self_loops=False)
        edges = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)
        graph = Data(torch.randn(9, 3, generator=gen), edges)
        graph = AddLaplacianEigenvectorPE(2, is_undirected=True)(graph)
        graphs.append(AddRandomWalkPE(3)(graph))
    data = Batch.from_data_list(graphs)
    torch.manual_seed(0)
    model = EnergyTransformer(
        3, 8, 5, heads=2, readout='cls', pe_channels=2, flip_signs=True
    )
    args = (data.x, data.edge_index, None, None)
    pe, batch = data.laplacian_eigenvector_pe, data.batch
    drawn = torch.stack([model(*args, pe, batch) for _ in range(20)])
    assert drawn.std(0).amax(-1).min() > 1e-4  # of each graph
    both = [model.eval()(*args, pe, batch) for _ in range(2)]
    assert torch.equal(*both)
    assert not torch.allclose(model(*args, -pe, batch), both[0])
    walks = EnergyTransformer(3, 8, 5, heads=2, pe_channels=3)
    assert walks(*args, data.random_walk_pe).shape == (27, 5)


def test_edge_weights_reach_the_blocks():
    model = build('cls')
    graph = random_graph(6, 15, seed=4)
    x, weight = inputs(graph)['x'], torch.rand(15).double() + 0.5
    out = model(x, graph.edge_index, weight)
    assert not torch.allclose(out, model(x, graph.edge_index))
    matrix = torch.sparse_coo_tensor(
        graph.edge_index.flip(0), weight, (6, 6)
    ).coalesce()
    merged = model(x, matrix.indices().flip(0), matrix.values())
    torch.testing.assert_close(model(x, matrix), merged)


@pytest.mark.parametrize('readout', ['cls', 'mean'])
def test_empty_graphs(readout):
    model = build(readout)
    none = torch.empty(2, 0, dtype=torch.long)
    x = torch.empty(0, 3, dtype=torch.double)
    out = model(x, none, batch=none[0], batch_size=2)
    assert out.shape == (2, 5)
    assert out.isfinite().all()
    assert model(x, none, batch=none[0]).shape == (0, 5)


def test_it_learns_a_property_of_whole_graphs():
    """Is there a triangle? The features say nothing."""
    gen = torch.Generator().manual_seed(0)
    graphs = []
    for i in range(40):
        ring = torch.arange(9)
        edges = torch.stack([ring, (ring + 1) % 9])  # one ring of nine
        if i % 2:  # or three triangles
            edges = torch.stack([ring, ring // 3 * 3 + (ring + 1) % 3])
        perm = torch.randperm(9, generator=gen)
        edges = perm[torch.cat([edges, edges.flip(0)], 1)]
        graph = Data(torch.ones(9, 3), edges, y=torch.tensor([i % 2]))
        graphs.append(AddRandomWalkPE(4)(graph))
    data = Batch.from_data_list(graphs)
    torch.manual_seed(0)
    model = EnergyTransformer(
        3, 8, 2, num_blocks=1, num_steps=2, heads=2, readout='cls',
        pe_channels=4,
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        logits = model(
            data.x,
            data.edge_index,
            pe=data.random_walk_pe,
            batch=data.batch,
            batch_size=40,
        )
        torch.nn.functional.cross_entropy(logits, data.y).backward()
        optimizer.step()
    assert (logits.argmax(-1) == data.y).all()


def test_lazy_features_and_reset():
    model = EnergyTransformer(
        -1, 8, 5, heads=2, readout='cls', pe_channels=2, flip_signs=True,
        modulation_channels=3,
    )  # fmt: skip
    graph = random_graph(7, 20)
    model(torch.randn(7, 6), graph.edge_index, pe=torch.randn(7, 2))
    assert model.embedding.weight.shape == (8, 6)
    torch.manual_seed(3)
    model.reset_parameters()
    once = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(3)
    model.reset_parameters()
    for name, value in model.state_dict().items():
        assert torch.equal(value, once[name])


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        ({'num_blocks': 0}, 'num_blocks >= 1'),
        ({'dropout': 1.5}, 'dropout in'),
        ({'flip_signs': True}, "give 'pe_channels'"),
        ({'num_relations': 2}, "one-hot 'edge_attr'"),
    ],
)
def test_wrong_options(kwargs, message):
    with pytest.raises(ValueError, match=message):
        EnergyTransformer(3, 8, 5, heads=2, **kwargs)


@pytest.mark.parametrize(
    ('kwargs', 'given', 'message'),
    [
        ({}, {'pe': torch.ones(7, 2)}, 'pe_channels=None'),
        ({'pe_channels': 2}, {}, 'pe_channels=2'),
        ({}, {'batch': torch.zeros(6).long()}, r'\[7\] \(got \[6\]\)'),
        ({}, {'edge_attr': torch.ones(20, 2)}, 'edge_dim=None'),
        ({'edge_dim': 2}, {}, 'edge_dim=2'),
    ],
)
def test_wrong_inputs(kwargs, given, message):
    model = EnergyTransformer(3, 8, 5, heads=2, **kwargs)
    with pytest.raises(ValueError, match=message):
        model(torch.randn(7, 3), random_graph(7, 20).edge_index, **given)


def test_edges_must_not_end_in_virtual_nodes():
    model = EnergyTransformer(3, 8, 5, heads=2, readout='cls')
    edges = torch.tensor([[0, 7], [1, 2]])
    with pytest.raises(IndexError, match=r'names node 7, but .* only 7'):
        model(torch.randn(7, 3), edges)
