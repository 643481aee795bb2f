import copy

import numpy as np
import pytest
import torch

from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torch_geometric.utils import to_undirected

from torch_energy_graph.metrics import auprc, auroc
from torch_energy_graph.train import fit, seed_everything


@pytest.fixture(scope='module')
def task():
    """200 nodes, 20 anomalous: shifted, noisy features; blind edges."""
    gen = torch.Generator().manual_seed(0)
    y = (torch.arange(200) % 10 == 0).long()
    x = torch.randn(200, 4, generator=gen) + 1.5 * y.view(-1, 1)
    edge_index = torch.randint(200, (2, 100), generator=gen)
    data = Data(x=x, edge_index=to_undirected(edge_index), y=y)
    fold = torch.arange(200) // 10 % 3
    return data, fold == 0, fold == 1


def gcn(dropout=0.3, in_channels=4):
    seed_everything(7)
    return GCN(in_channels, 8, num_layers=2, out_channels=1, dropout=dropout)


def squeeze(model, data):
    return model(data.x, data.edge_index).squeeze(-1)


def train(task, model=None, **kwargs):
    data, train_mask, val_mask = task
    model = model or gcn()
    options = {'epochs': 30, 'lr': 0.02, 'predict': squeeze, **kwargs}
    return model, fit(model, data, train_mask, val_mask, **options)


def test_learns_and_returns_the_best_state(task):
    data, train_mask, val_mask = task
    seen = []
    model, result = train(task, progress=seen.append)
    y = data.y.numpy()
    test = ~(train_mask | val_mask).numpy()
    assert auroc(y[test], result.scores[test]) > 0.9

    assert result.history == seen
    assert [row['epoch'] for row in seen] == list(range(1, 31))
    val = val_mask.numpy()
    best = max(seen, key=lambda row: row['val_auprc'])
    assert result.best_epoch == best['epoch']
    assert auprc(y[val], result.scores[val]) == best['val_auprc']
    assert auroc(y[val], result.scores[val]) == best['val_auroc']

    assert not model.training
    with torch.no_grad():
        again = squeeze(model, data).double().sigmoid().numpy()
    assert np.array_equal(again, result.scores)
    assert result.scores.dtype == np.float64
    assert result.num_parameters == 4 * 8 + 8 + 8 + 1


def test_first_loss_is_the_weighted_one(task):
    data, train_mask, _ = task
    model = gcn(dropout=0.0)
    with torch.no_grad():
        logits = squeeze(model, data)[train_mask]
    y = data.y[train_mask].bool()
    log1p = torch.nn.functional.softplus
    omega = (~y).sum() / y.sum()
    total = omega * log1p(-logits[y]).sum() + log1p(logits[~y]).sum()
    _, result = train(task, model, epochs=1)
    assert result.history[0]['loss'] == pytest.approx(
        float(total / train_mask.sum()), rel=1e-5
    )


@pytest.mark.parametrize('num_parts', [None, 4])
def test_same_seed_same_bits(task, num_parts):
    def run(seed):
        _, result = train(task, epochs=5, num_parts=num_parts, seed=seed)
        return result.scores

    assert np.array_equal(run(0), run(0))
    assert not np.array_equal(run(0), run(1))


def test_global_random_state_is_untouched(task):
    model = gcn()
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    train(task, model, epochs=2, num_parts=2)
    assert torch.equal(torch.rand(3), expected)


def test_partitions_train(task):
    data, train_mask, val_mask = task
    _, result = train(task, num_parts=4)
    test = ~(train_mask | val_mask).numpy()
    assert auroc(data.y.numpy()[test], result.scores[test]) > 0.9


def test_parts_without_training_nodes_are_skipped(task):
    data, _, val_mask = task
    few = torch.zeros(200, dtype=torch.bool)
    few[[0, 1]] = True
    model = gcn()
    result = fit(
        model, data, few, val_mask, epochs=2, lr=0.1, num_parts=20,
        predict=squeeze,
    )  # fmt: skip
    assert np.isfinite([row['loss'] for row in result.history]).all()


@pytest.mark.parametrize('poison', ['flip', 'unlabelled', 'nonsense'])
def test_labels_outside_the_masks_are_never_used(task, poison):
    data, train_mask, val_mask = task
    other = ~(train_mask | val_mask)
    bad = copy.copy(data)
    values = {'flip': 1 - data.y, 'unlabelled': -1, 'nonsense': 999}
    bad.y = torch.where(other, values[poison], data.y)
    _, expected = train(task, epochs=5)
    _, result = train((bad, train_mask, val_mask), epochs=5)
    assert np.array_equal(result.scores, expected.scores)
    assert result.history == expected.history


def test_the_model_sees_no_labels(task):
    def spy(model, data):
        assert 'y' not in data
        return squeeze(model, data)

    train(task, epochs=1, predict=spy)
    train(task, epochs=1, predict=spy, num_parts=2)
    assert 'y' in task[0]


def test_patience_and_eval_every(task):
    def constant(model, data):
        return squeeze(model, data) * 0

    _, result = train(task, predict=constant, patience=3, eval_every=2)
    assert [row['epoch'] for row in result.history] == [2, 4, 6, 8]
    assert result.best_epoch == 2
    _, result = train(task, epochs=5, eval_every=2)
    assert [row['epoch'] for row in result.history] == [2, 4, 5]


def test_weight_decay_and_clipping_act(task):
    _, plain = train(task, epochs=3)
    for option in ({'weight_decay': 1.0}, {'clip_norm': 1e-9}):
        _, other = train(task, epochs=3, **option)
        assert not np.array_equal(plain.scores, other.scores)


def test_lazy_model(task):
    _, result = train(task, gcn(in_channels=-1), epochs=2)
    assert result.num_parameters == 4 * 8 + 8 + 8 + 1


def test_own_loss(task):
    def squared(logits, y):
        return (logits - y).square().mean()

    _, result = train(task, epochs=3, loss=squared)
    _, default = train(task, epochs=3)
    assert not np.array_equal(result.scores, default.scores)


class Diverging(torch.nn.Module):
    step_size = 0.5

    def __init__(self, healthy):
        super().__init__()
        self.lin = torch.nn.Linear(4, 1)
        self.healthy, self.calls = healthy, 0

    def forward(self, x, edge_index):
        self.calls += self.training
        out = self.lin(x).squeeze(-1)
        return out if self.calls <= self.healthy else out * float('nan')


def test_nan_loss_stops_in_the_last_good_state(task):
    model = Diverging(healthy=2)
    states = []

    def note(record):
        states.append(copy.deepcopy(model.state_dict()))

    with pytest.raises(
        FloatingPointError, match=r'epoch 3 .*nan.*lr=0\.1, step_size=0\.5'
    ):
        train(task, model, predict=None, lr=0.1, progress=note)
    assert len(states) == 2
    weights = [state['lin.weight'] for state in states]
    assert any(torch.equal(model.lin.weight, weight) for weight in weights)


def test_nan_scores_stop(task):
    def broken(model, data):
        out = squeeze(model, data)
        return out if model.training else out * float('nan')

    with pytest.raises(FloatingPointError, match='200 scores'):
        train(task, predict=broken)


def test_keyboard_interrupt_passes_through(task):
    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(task, progress=stop)


def bad_masks(data, train_mask, val_mask):
    normal = train_mask & (data.y == 0)
    return {
        'shape': (train_mask[:50], val_mask, r'train_mask .*\[200\]'),
        'dtype': (train_mask, val_mask.long(), 'val_mask as bool'),
        'overlap': (train_mask, train_mask, 'disjoint'),
        'train class': (normal, val_mask, r'in train_mask \(got .* and 0\)'),
        'val class': (train_mask, val_mask & (data.y == 1), 'in val_mask'),
    }


@pytest.mark.parametrize(
    'case', ['shape', 'dtype', 'overlap', 'train class', 'val class']
)
def test_bad_masks(task, case):
    train_mask, val_mask, match = bad_masks(*task)[case]
    with pytest.raises(ValueError, match=match):
        train((task[0], train_mask, val_mask))


def test_bad_graphs_and_models(task):
    data, train_mask, val_mask = task
    with pytest.raises(ValueError, match=r'got \[200, 1\].*predict'):
        train(task, predict=None)
    nan = copy.copy(data)
    nan.x = data.x * float('nan')
    with pytest.raises(ValueError, match='NaN'):
        train((nan, train_mask, val_mask))
    unlabelled = copy.copy(data)
    unlabelled.labeled_mask = ~train_mask
    with pytest.raises(ValueError, match='unlabelled nodes'):
        train((unlabelled, train_mask, val_mask))
    bare = copy.copy(data)
    del bare.y
    with pytest.raises(ValueError, match="labels 'y'"):
        train((bare, train_mask, val_mask))
    with pytest.raises(ValueError, match='epochs'):
        train(task, epochs=0)
