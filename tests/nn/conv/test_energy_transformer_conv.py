import pytest
import torch

from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm import AttentionExplainer
from torch_geometric.nn.models.basic_gnn import BasicGNN

from torch_energy_graph.nn import EnergyTransformerConv
from torch_energy_graph.ops import use_backend
from torch_energy_graph.testing import disjoint_union, random_graph


def layer(**kwargs):
    torch.manual_seed(0)
    return EnergyTransformerConv(4, num_steps=3, **kwargs).double()


def test_repr():
    conv = EnergyTransformerConv(16, 32, heads=2, step_size='auto')
    assert str(conv) == (
        "EnergyTransformerConv(16, 32, heads=2, num_steps=4, step_size='auto')"
    )


@pytest.mark.parametrize('backend', ['torch', 'reference'])
@pytest.mark.parametrize('step_size', [0.1, 'learn'])
def test_gradcheck_through_the_steps(backend, step_size):
    conv = layer(heads=2, step_size=step_size, beta='learn', edge_dim=2)
    graph = random_graph(5, 12, seed=2)
    x = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    attr = torch.randn(12, 2, dtype=torch.double, requires_grad=True)
    names, values = zip(*conv.named_parameters(), strict=True)

    def function(x, attr, *values):
        parameters = dict(zip(names, values, strict=True))
        args = (x, graph.edge_index, None, attr)
        return torch.func.functional_call(conv, parameters, args)

    with use_backend(backend):
        assert torch.autograd.gradcheck(function, (x, attr, *values))


@pytest.mark.parametrize('backend', ['torch', 'reference'])
def test_gradgradcheck(backend):
    conv = layer(activation='softmax')
    graph = random_graph(4, 9, seed=3)
    x = torch.randn(4, 4, dtype=torch.double, requires_grad=True)
    weight_q = conv.attention.weight_q

    def function(x, weight_q):
        parameters = {'attention.weight_q': weight_q}
        args = (x, graph.edge_index)
        return torch.func.functional_call(conv, parameters, args)

    with use_backend(backend):
        assert torch.autograd.gradgradcheck(function, (x, weight_q))


@pytest.mark.parametrize('shuffle', [None, 7])
@pytest.mark.parametrize('step_size', [0.1, 'auto'])
def test_a_union_of_graphs_is_the_graphs_alone(shuffle, step_size):
    conv = layer(step_size=step_size)
    graphs = [random_graph(6, 20, seed=s) for s in range(3)]
    alone = [torch.randn(6, 4, dtype=torch.double) for _ in graphs]
    union = disjoint_union(graphs, shuffle_seed=shuffle)
    x = torch.cat(alone)[union.n_id]
    out, trace = conv(
        x, union.edge_index, batch=union.batch, batch_size=3, return_trace=True
    )
    for b, (graph, features) in enumerate(zip(graphs, alone, strict=True)):
        expected, one = conv(features, graph.edge_index, return_trace=True)
        mine = union.batch == b
        order = union.n_id[mine].argsort()
        torch.testing.assert_close(out[mine][order], expected)
        torch.testing.assert_close(trace.energy[:, b], one.energy)
        torch.testing.assert_close(trace.grad_norm[:, b], one.grad_norm)
        torch.testing.assert_close(trace.change[:, b], one.change)
        if step_size == 'auto':
            steps = trace.step_size[:, mine][:, order]
            torch.testing.assert_close(steps, one.step_size)
        energy = conv.energy(features, graph.edge_index)
        torch.testing.assert_close(one.energy[0], energy)


def test_node_permutation_equivariance():
    conv = layer(step_size='auto')
    graph = random_graph(8, 30, seed=1)
    x = torch.randn(8, 4, dtype=torch.double)
    perm = torch.randperm(8)
    moved = conv(x[perm], perm.argsort()[graph.edge_index])
    torch.testing.assert_close(moved, conv(x, graph.edge_index)[perm])


@pytest.mark.parametrize('step_size', [0.1, 'learn', 'auto'])
def test_trace_has_one_energy_more_than_steps(step_size):
    conv = layer(step_size=step_size)
    graph = random_graph(8, 30, seed=1)
    x = torch.randn(8, 4, dtype=torch.double)
    out, trace = conv(x, graph.edge_index, return_trace=True)
    torch.testing.assert_close(out, conv(x, graph.edge_index))
    assert trace.energy.shape == (4,)
    assert not trace.energy.requires_grad
    last = conv.energy(out, graph.edge_index)
    torch.testing.assert_close(trace.energy[-1], last)
    nodes = conv.energy(out, graph.edge_index, reduction='node')
    torch.testing.assert_close(nodes.sum(), last)


def test_noise_only_in_training():
    conv = layer(noise_std=0.5)
    graph = random_graph(8, 30, seed=1)
    x = torch.randn(8, 4, dtype=torch.double)
    assert not torch.equal(
        conv(x, graph.edge_index), conv(x, graph.edge_index)
    )
    conv.eval()
    assert torch.equal(conv(x, graph.edge_index), conv(x, graph.edge_index))


class Net(torch.nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.conv = EnergyTransformerConv(4, 3, num_steps=2, **kwargs)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@pytest.mark.parametrize('kwargs', [{}, {'add_self_loops': True}])
@pytest.mark.parametrize('algorithm', [GNNExplainer, AttentionExplainer])
def test_explainers(algorithm, kwargs):
    net = Net(**kwargs)
    graph = random_graph(8, 30, seed=1)
    x = torch.randn(8, 4)
    before = net(x, graph.edge_index)
    gnn = algorithm is GNNExplainer
    explainer = Explainer(
        net,
        algorithm(epochs=3) if gnn else algorithm(),
        explanation_type='model',
        node_mask_type='attributes' if gnn else None,
        edge_mask_type='object',
        model_config={
            'mode': 'multiclass_classification',
            'task_level': 'node',
            'return_type': 'raw',
        },
    )
    explanation = explainer(x, graph.edge_index, index=2)
    assert explanation.edge_mask.shape == (30,)
    assert explanation.edge_mask.max() > 0
    # edges into another node's past beyond two steps do not matter
    after = net(x, graph.edge_index)
    torch.testing.assert_close(after, before)


def test_explained_edges_are_those_of_the_neighbourhood():
    net = Net()
    edge_index = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]])  # two islands
    explainer = Explainer(
        net,
        GNNExplainer(epochs=5),
        explanation_type='model',
        node_mask_type=None,
        edge_mask_type='object',
        model_config={
            'mode': 'multiclass_classification',
            'task_level': 'node',
            'return_type': 'raw',
        },
    )
    mask = explainer(torch.randn(5, 4), edge_index, index=0).edge_mask
    assert (mask[:2] > 0).all()
    assert (mask[2:] == 0).all()


def test_it_is_the_conv_of_a_basic_gnn():
    class EnergyGNN(BasicGNN):
        supports_edge_weight = True
        supports_edge_attr = False
        supports_norm_batch = False

        def init_conv(self, in_channels, out_channels, **kwargs):
            return EnergyTransformerConv(in_channels, out_channels, **kwargs)

    graph = random_graph(8, 30, seed=1)
    net = EnergyGNN(4, 16, 2, out_channels=3, jk='cat', heads=2)
    weight = torch.rand(30) + 0.5
    out = net(torch.randn(8, 4), graph.edge_index, edge_weight=weight)
    assert out.shape == (8, 3)
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
