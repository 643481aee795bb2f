import copy

import pytest
import torch
from torch import Tensor, nn

from torch_geometric import EdgeIndex
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.typing import WITH_TORCH_SCATTER, WITH_TORCH_SPARSE

from torch_energy_graph import nn as teg
from torch_energy_graph.ood import check_double_backward
from torch_energy_graph.testing import random_graph

scatter_only = pytest.mark.skipif(
    not WITH_TORCH_SCATTER, reason='torch_scatter is not installed'
)
sparse_only = pytest.mark.skipif(
    not WITH_TORCH_SPARSE, reason='torch_sparse is not installed'
)


def draw(num_nodes=9, num_edges=24, channels=4):
    data = random_graph(num_nodes, num_edges, num_isolated=1)
    gen = torch.Generator().manual_seed(1)
    data.x = torch.randn(num_nodes, channels, generator=gen)
    return data


class Net(nn.Module):
    """A layer between two linear ones; smooth, if the layer is."""

    def __init__(self, conv, channels=4, needs_edges=True):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.conv = conv
        self.head = nn.Linear(channels, 3)
        self.needs_edges = needs_edges

    def forward(self, x, edge_index=None):
        h = self.lin(x).tanh()
        h = self.conv(h, edge_index) if self.needs_edges else self.conv(h)
        return self.head(h.tanh())


def convs_of_pyg():
    degree = torch.tensor([1, 3, 4, 2])
    mlp = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    return {
        'GCN': pyg.GCNConv(4, 4),
        'SAGE-mean': pyg.SAGEConv(4, 4),
        'SAGE-max': pyg.SAGEConv(4, 4, aggr='max'),
        'GAT': pyg.GATConv(4, 4),
        'GATv2': pyg.GATv2Conv(4, 2, heads=2),
        'GIN': pyg.GINConv(mlp),
        'TransformerConv': pyg.TransformerConv(4, 4),
        'PNA': pyg.PNAConv(
            4, 4, ['mean', 'max', 'std'], ['identity', 'amplification'], degree
        ),
    }


CONVS = [*convs_of_pyg()]


@pytest.mark.parametrize('name', CONVS)
def test_convs_of_pyg(name):
    torch.manual_seed(0)
    model = Net(convs_of_pyg()[name])
    assert check_double_backward(model, draw()) < 1e-4


def our_convs():
    return {
        'EnergyAttentionConv': teg.EnergyAttentionConv(4, heads=2),
        'EnergyTransformerConv': teg.EnergyTransformerConv(4, heads=2),
        'HopfieldConv': teg.HopfieldConv(4, 4, steps=2),
        'DIFFormerConv': teg.DIFFormerConv(4, 4, heads=2),
        'DIFFormerConv-sigmoid': teg.DIFFormerConv(4, 4, kernel='sigmoid'),
    }


OURS = [*our_convs()]


@pytest.mark.parametrize('name', OURS)
def test_our_convs(name):
    torch.manual_seed(0)
    model = Net(our_convs()[name])
    assert check_double_backward(model, draw()) < 1e-4


def test_a_detached_step_is_no_derivative():
    # not even the first derivative knows of the certified step
    torch.manual_seed(0)
    conv = teg.EnergyTransformerConv(4, num_steps=1, step_size='auto')
    with pytest.raises(RuntimeError, match='loses a second derivative'):
        check_double_backward(Net(conv), draw())


def our_maps():
    return {
        'HopfieldNetwork': teg.HopfieldNetwork(4, activation='softmax'),
        'HopfieldMemory': teg.HopfieldMemory(4, 4, num_memories=5),
        'DiffusionAttention': teg.DiffusionAttention(4, 4),
        'EnergyLayerNorm': teg.EnergyLayerNorm(4),
    }


MAPS = [*our_maps()]


@pytest.mark.parametrize('name', MAPS)
def test_our_layers_without_edges(name):
    torch.manual_seed(0)
    model = Net(our_maps()[name], needs_edges=False)
    assert check_double_backward(model, draw()) < 1e-4


class Readout(nn.Module):
    """Graphs by an aggregation, with an index or with pointers."""

    def __init__(self, aggr, pointers=False):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.aggr = aggr
        self.head = nn.Linear(4, 3)
        self.pointers = pointers

    def forward(self, x, batch):
        h = self.lin(x).tanh()
        if self.pointers:
            ptr = torch.tensor([0, 3, 4, x.size(0)])
            return self.head(self.aggr(h, ptr=ptr, dim=0))
        return self.head(self.aggr(h, batch))


def bags():
    gen = torch.Generator().manual_seed(3)
    x = torch.randn(8, 4, generator=gen)
    batch = torch.tensor([0, 0, 0, 1, 2, 2, 2, 2])
    return Data(x=x, batch=batch)


def predict_bags(model, data):
    return model(data.x, data.batch)


def aggregation(name):
    gate = nn.Linear(4, 1)
    return {
        'sum': lambda: pyg.SumAggregation(),
        'mean': lambda: pyg.MeanAggregation(),
        'max': lambda: pyg.MaxAggregation(),
        'softmax': lambda: pyg.SoftmaxAggregation(learn=True),
        'attentional': lambda: pyg.AttentionalAggregation(gate),
        'set transformer': lambda: pyg.SetTransformerAggregation(4, heads=2),
        'ours': lambda: teg.HopfieldAggregation(4, heads=2),
    }[name]()


NAMES = ['sum', 'mean', 'max', 'softmax', 'attentional', 'ours']


@pytest.mark.parametrize('pointers', [False, True])
@pytest.mark.parametrize('name', NAMES)
def test_aggregations(name, pointers):
    torch.manual_seed(0)
    model = Readout(aggregation(name), pointers)
    assert check_double_backward(model, bags(), predict_bags) < 1e-4


@scatter_only
@pytest.mark.parametrize('name', ['sum', 'mean', 'softmax', 'attentional'])
def test_sorted_groups_are_found_wrong_where_paths_are_not_replaced(name):
    torch.manual_seed(0)
    model = Readout(aggregation(name), pointers=True)
    with pytest.raises(RuntimeError, match='loses a second derivative'):
        check_double_backward(model, bags(), predict_bags, forced=False)


def sorted_edges(data):
    edge_index = EdgeIndex(
        data.edge_index, sparse_size=(data.num_nodes, data.num_nodes)
    )
    data.edge_index = edge_index.sort_by('col').values
    return data


@scatter_only
def test_gat_on_sorted_edges():
    torch.manual_seed(0)
    conv = pyg.GATConv(4, 4, add_self_loops=False)  # they undo the order
    model, data = Net(conv), sorted_edges(draw())
    with pytest.raises(RuntimeError, match='loses a second derivative'):
        check_double_backward(model, data, forced=False)
    assert check_double_backward(model, data) < 1e-4


@sparse_only
@pytest.mark.parametrize('name', ['GCN', 'SAGE-mean', 'GAT'])
def test_sparse_tensors(name):
    from torch_sparse import SparseTensor

    torch.manual_seed(0)
    data = draw()
    src, dst = data.edge_index
    size = (data.num_nodes, data.num_nodes)
    data.edge_index = SparseTensor(row=dst, col=src, sparse_sizes=size)
    model = Net(convs_of_pyg()[name])
    assert check_double_backward(model, data) < 1e-4


@pytest.mark.filterwarnings('ignore:Sparse')
@pytest.mark.parametrize('name', ['GCN', 'SAGE-mean'])
def test_sparse_matrices_of_torch(name):
    torch.manual_seed(0)
    data = draw()
    src, dst = data.edge_index
    ones = torch.ones(src.numel(), dtype=torch.double)
    matrix = torch.sparse_coo_tensor(
        torch.stack([dst, src]), ones, (data.num_nodes, data.num_nodes)
    )
    matrix = matrix.coalesce().to_sparse_csr()

    def predict(model, data):
        return model(data.x, matrix.to(data.x.dtype))

    model = Net(convs_of_pyg()[name])
    assert check_double_backward(model, data, predict) < 1e-4
    if name == 'SAGE-mean':
        with pytest.raises(RuntimeError, match='differentiated twice'):
            check_double_backward(model, data, predict, forced=False)


def test_flash_attention():
    torch.manual_seed(0)
    model = Readout(aggregation('set transformer'))
    with pytest.raises(RuntimeError, match='differentiated twice'):
        check_double_backward(model, bags(), predict_bags, forced=False)
    assert check_double_backward(model, bags(), predict_bags) < 1e-4


class Forgetful(torch.autograd.Function):
    """x^3, whose first derivative is a constant to autograd."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x.detach() ** 2


class Cube(nn.Module):
    def __init__(self, right):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)
        self.right = right

    def forward(self, x):
        h = self.first(x)
        return self.head(h**3 if self.right else Forgetful.apply(h))


def test_a_planted_error_is_found_and_named():
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    assert check_double_backward(Cube(right=True), x) < 1e-6
    with pytest.raises(RuntimeError, match=r"\['first\.weight', 'first\.b"):
        check_double_backward(Cube(right=False), x)


def test_images_with_kinks():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.LeakyReLU(0.2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(16, 3),
    )
    before = copy.deepcopy(model.state_dict())
    assert check_double_backward(model, torch.rand(3, 1, 6, 6)) < 1e-4
    assert model.training
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_lazy_models():
    model = pyg.Sequential(
        'x, edge_index',
        [
            (pyg.GCNConv(-1, 4), 'x, edge_index -> x'),
            nn.Tanh(),
            pyg.Linear(4, 3),
        ],
    )
    assert check_double_backward(model, draw()) < 1e-4


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.lin((x + torch.randn_like(x)).tanh())


def test_models_that_cannot_be_checked():
    x = torch.randn(3, 4)
    with pytest.raises(ValueError, match='random numbers'):
        check_double_backward(Noisy(), x)
    frozen = nn.Linear(4, 3).requires_grad_(False)
    with pytest.raises(ValueError, match='nothing to train'):
        check_double_backward(frozen, x)
