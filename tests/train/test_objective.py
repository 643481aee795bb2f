"""Other losses and other choices of the best epoch in ClassifierTrainer."""

import copy

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from torch_geometric.data import Data
from torch_geometric.nn import GCN

from torch_energy_graph.train import ClassifierTrainer, TrainOptions

MASKS = (torch.arange(60) % 4 == 0, torch.arange(60) % 4 == 1)


def graph():
    gen = torch.Generator().manual_seed(0)
    y = torch.arange(3).repeat(20)
    ends = torch.randint(60, (2, 240), generator=gen)
    return Data(
        x=torch.eye(3)[y] + torch.randn(60, 3, generator=gen),
        edge_index=ends[:, y[ends[0]] == y[ends[1]]],
        y=y,
    )


def trainer_of(objective=None, **options):
    torch.manual_seed(0)
    model = GCN(3, 8, num_layers=2, out_channels=3)
    options = TrainOptions(**{'epochs': 8, 'lr': 0.1, **options})
    return ClassifierTrainer(
        model, graph(), *MASKS, options, objective=objective
    )


def squared_gradient(logits, part, mask, y):
    part = copy.copy(part)
    part.x = part.x.detach().requires_grad_()
    out = logits(part)
    (grad,) = torch.autograd.grad(
        out.logsumexp(-1).sum(), part.x, create_graph=True
    )
    return cross_entropy(out[mask], y[mask]) + grad.square().sum()


def test_an_objective_is_minimised():
    found = trainer_of(squared_gradient).fit()
    torch.manual_seed(0)
    model = GCN(3, 8, num_layers=2, out_channels=3)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    data, losses = graph(), []
    for _ in range(8):
        adam.zero_grad()
        loss = squared_gradient(
            lambda part: model(part.x, part.edge_index),
            data,
            MASKS[0],
            data.y,
        )
        loss.backward()
        adam.step()
        losses.append(loss.item())
    np.testing.assert_allclose(
        [record['loss'] for record in found.history], losses, rtol=1e-6
    )
    plain = trainer_of().fit().history[-1]['loss']
    assert found.history[-1]['loss'] != plain


@pytest.mark.parametrize('num_parts', [None, 3])
def test_an_objective_sees_parts_without_labels(num_parts):
    seen = []

    def objective(logits, part, mask, y):
        assert part.y is None
        assert mask.shape == y.shape == (part.num_nodes,)
        seen.append(int(mask.sum()))
        return cross_entropy(logits(part)[mask], y[mask])

    trainer_of(objective, epochs=1, num_parts=num_parts).fit()
    assert sum(seen) == int(MASKS[0].sum())


def test_select_by_loss():
    by_loss = trainer_of(select='loss').fit()
    by_accuracy = trainer_of().fit()
    losses = [record['val_loss'] for record in by_loss.history]
    accuracies = [record['val_accuracy'] for record in by_loss.history]
    assert by_loss.best_epoch == 1 + int(np.argmin(losses))
    assert by_accuracy.best_epoch == 1 + int(np.argmax(accuracies))
    assert by_loss.best_epoch != by_accuracy.best_epoch  # of this graph


def test_a_resumed_trainer_keeps_the_least_loss():
    whole = trainer_of(select='loss', patience=2, epochs=40)
    whole.fit()
    first = trainer_of(select='loss', patience=2, epochs=40)
    for _ in range(3):
        first.run_epoch()
    tensors, values = copy.deepcopy(first.state())
    second = trainer_of(select='loss', patience=2, epochs=40)
    second.load(tensors, values)
    second.fit()
    assert second.epoch == whole.epoch < 40
    assert second.best_epoch == whole.best_epoch


def test_select_is_checked():
    with pytest.raises(ValueError, match="'select' accuracy or loss"):
        TrainOptions(select='nll')
