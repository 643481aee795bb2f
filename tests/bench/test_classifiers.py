import numpy as np
import pytest
import torch

from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from torch_energy_graph.bench import Task, get_model, get_protocol
from torch_energy_graph.bench.adjacency import symmetric_adjacency
from torch_energy_graph.bench.class_networks import get_class_network
from torch_energy_graph.bench.classifiers import TunedGCN
from torch_energy_graph.nn.models import DIFFormer

SMALL = {
    'epochs': 20,
    'lr': 0.03,
    'hidden_channels': 8,
    'features': 'raw',
    'dropout': 0.1,
}
NAMES = (
    *('mlp_cls', 'gcn_cls', 'gcn_tuned', 'gcn_only', 'mean_gcn'),
    *('difformer', 'difformer_global', 'difformer_a', 'difformer_set'),
)


@pytest.fixture
def task():
    """Three classes with shifted features that link to each other."""
    gen = torch.Generator().manual_seed(0)
    y = torch.arange(3).repeat(50)
    centres = 1.5 * torch.eye(3)
    x = centres[y] + 0.8 * torch.randn(150, 3, generator=gen)
    ends = torch.randint(150, (2, 900), generator=gen)
    edge_index = ends[:, y[ends[0]] == y[ends[1]]]
    return Task(Data(x=x, edge_index=edge_index, y=y))


def fitted(task, name, seed=0, **params):
    split = get_protocol('random-60-20-20').split(task, 0)
    data = task.data.clone()
    result = get_model(name)(data, split, seed, **{**SMALL, **params})
    test = split.test.numpy()
    right = result.scores.argmax(1) == task.data.y.numpy()
    return result, right[test].mean()


@pytest.mark.parametrize('name', NAMES)
def test_classifiers_learn_and_repeat(task, name):
    first, accuracy = fitted(task, name)
    again, _ = fitted(task, name)
    np.testing.assert_array_equal(first.scores, again.scores)
    assert first.info == again.info
    assert first.scores.shape == (150, 3)
    np.testing.assert_allclose(first.scores.sum(1), 1)
    assert accuracy > 0.75


def test_seeds_differ(task):
    first, other = (fitted(task, 'mlp_cls', seed=s)[0] for s in (0, 1))
    assert not np.array_equal(first.scores, other.scores)


@pytest.mark.parametrize(
    'params',
    [
        {'num_parts': 3},
        {'heads': 2, 'use_value': True, 'use_source': True},
        {'graph_weight': 0.6, 'alpha': 0.8},
        {'use_norm': False, 'use_residual': False},
        {'undirected': False, 'clip_norm': 1.0, 'eval_every': 3},
        {'features': 'standard'},
    ],
)
def test_options_of_difformer(task, params):
    result, accuracy = fitted(task, 'difformer', **params)
    assert accuracy > 0.6
    assert result.info['num_parameters'] > 0


def trainer_of(task, name, **params):
    split = get_protocol('random-60-20-20').split(task, 0)
    network = get_class_network(name)
    return network.trainer(
        task.data, split, 0, network.params(**{**SMALL, **params})
    )


def forward(model, task):
    model.eval()
    with torch.no_grad():
        return model(task.data.x, task.data.edge_index)


def test_a_graph_term_alone_is_difformer_without_the_other(task):
    model = trainer_of(task, 'gcn_only', use_value=True).model
    whole = DIFFormer(3, 8, 3, graph_weight=1.0, dropout=0.1)
    state = whole.state_dict() | model.state_dict()
    whole.load_state_dict(state)
    torch.testing.assert_close(forward(model, task), forward(whole, task))


def test_the_mean_is_the_attention_of_keys_and_queries_that_are_zero(task):
    model = trainer_of(task, 'mean_gcn', use_value=True).model
    whole = DIFFormer(3, 8, 3, dropout=0.1)
    state = whole.state_dict()
    for key in state:
        if 'query' in key or 'key' in key:
            state[key] = torch.zeros_like(state[key])
    whole.load_state_dict(state | model.state_dict())
    # equal up to the eps of norms and denominators
    torch.testing.assert_close(
        forward(model, task), forward(whole, task), rtol=1e-4, atol=1e-4
    )


def test_ablations_have_no_queries_and_keys(task):
    sizes = {
        name: sum(p.numel() for p in trainer_of(task, name).model.parameters())
        for name in ('difformer', 'mean_gcn', 'gcn_only')
    }
    assert sizes['mean_gcn'] == sizes['gcn_only']
    # two layers of two maps of 8 channels with bias
    assert sizes['difformer'] - sizes['mean_gcn'] == 2 * 2 * (8 * 8 + 8)


def test_difformer_set_sees_no_edge(task):
    first, _ = fitted(task, 'difformer_set')
    task.data.edge_index = task.data.edge_index[:, :0]
    again, _ = fitted(task, 'difformer_set')
    np.testing.assert_array_equal(first.scores, again.scores)


def test_a_plain_tuned_gcn_is_gcn_convolutions_and_a_map(task):
    data = task.data
    model = TunedGCN(3, 8, 2, 2, 0.5, 'none', False).eval()
    x = data.x
    for layer in model.convs:
        conv = GCNConv(*layer.lin.weight.shape[::-1])
        conv.load_state_dict(layer.state_dict())
        x = conv(x, data.edge_index).relu()
    out = model(data.x, symmetric_adjacency(data))
    torch.testing.assert_close(out, model.head(x))


@pytest.mark.parametrize('norm', ['batch', 'layer'])
def test_a_tuned_gcn_has_norms_and_residuals(task, norm):
    _, accuracy = fitted(task, 'gcn_tuned', norm=norm, residual=True)
    assert accuracy > 0.75


def test_features_are_scaled_as_asked(task):
    task.data.x = task.data.x.abs().ceil() + torch.eye(3)[task.data.y]
    before = task.data.x.clone()
    rows = trainer_of(task, 'mlp_cls', features='rows').graph.x
    torch.testing.assert_close(rows.sum(1), torch.ones(150))
    split = get_protocol('random-60-20-20').split(task, 0)
    scaled = trainer_of(task, 'mlp_cls', features='standard').graph.x
    torch.testing.assert_close(scaled[split.train].mean(0), torch.zeros(3))
    raw = trainer_of(task, 'mlp_cls').graph.x
    assert torch.equal(raw, task.data.x)
    assert torch.equal(raw, before)


def test_a_split_without_classes_is_refused(task):
    binary = Task(Data(x=task.data.x, y=task.data.y.clamp(max=1)))
    split = get_protocol('et-40pct').split(binary, 0)
    with pytest.raises(ValueError, match="such as 'public'"):
        get_model('mlp_cls')(task.data, split, 0)
