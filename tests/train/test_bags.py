from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score

from torch_energy_graph.datasets.bags import Bags
from torch_energy_graph.datasets.toy_bags import latch_bags
from torch_energy_graph.nn.models.hopfield_classifier import HopfieldClassifier
from torch_energy_graph.train.bags import (
    BagOptions,
    BagTrainer,
    bag_logits,
    fit_bags,
)

TRAIN, VAL, TEST = torch.arange(60).split([40, 10, 10])


def make(bags, seed=0, **kwargs):
    torch.manual_seed(seed)
    return HopfieldClassifier(bags.x.size(1), 16, heads=2, **kwargs)


def latch():
    return latch_bags(60, length=8, num_symbols=5)


class Counted:
    """Bags that note which of them are read."""

    def __init__(self, bags):
        self.bags, self.y, self.read = bags, bags.y, []

    def select(self, index):
        self.read.append(index.tolist())
        return self.bags.select(index)


def test_it_learns_and_keeps_the_best_epoch():
    bags = latch()
    model, before = make(bags), torch.random.get_rng_state()
    records = []
    fit = fit_bags(
        model,
        bags,
        TRAIN,
        VAL,
        BagOptions(epochs=43, lr=0.02, eval_every=10),
        records.append,
    )
    assert torch.equal(before, torch.random.get_rng_state())
    assert not model.training
    assert records == fit.history
    assert [r['epoch'] for r in records] == [10, 20, 30, 40, 43]
    best = min(records, key=lambda record: record['val_loss'])
    assert fit.best_epoch == best['epoch']
    logits = bag_logits(model, bags, VAL)
    loss = torch.nn.functional.cross_entropy(logits, bags.y[VAL])
    assert loss.item() == pytest.approx(best['val_loss'], rel=1e-5)
    score = (logits[:, 1] - logits[:, 0]).numpy()
    assert best['val_auc'] == roc_auc_score(bags.y[VAL].numpy(), score)
    right = bag_logits(model, bags, TEST).argmax(1) == bags.y[TEST]
    assert right.all()


def test_only_the_named_bags_are_read():
    bags = latch()
    poisoned = bags.y.clone()
    poisoned[TEST] = 1 - poisoned[TEST]
    states = []
    for y in (bags.y, poisoned):
        model, counted = make(bags), Counted(replace(bags, y=y))
        options = BagOptions(epochs=3, batch_bags=16)
        fit_bags(model, counted, TRAIN, VAL, options)
        read = {number for part in counted.read for number in part}
        assert read == {*TRAIN.tolist(), *VAL.tolist()}
        states.append([*model.state_dict().values()])
    for one, other in zip(*states, strict=True):
        assert torch.equal(one, other)


def test_batches_are_new_parts_of_all_bags():
    counted = Counted(latch())
    trainer = BagTrainer(
        make(counted.bags), counted, TRAIN, BagOptions(batch_bags=16)
    )
    orders = []
    for _ in range(2):
        counted.read.clear()
        trainer.run_epoch()
        assert [len(part) for part in counted.read] == [16, 16, 8]
        orders.append([number for part in counted.read for number in part])
    assert sorted(orders[0]) == sorted(orders[1]) == TRAIN.tolist()
    assert orders[0] != orders[1]


def test_all_bags_at_once_are_cut_once():
    counted = Counted(latch())
    trainer = BagTrainer(make(counted.bags), counted, TRAIN)
    losses = [trainer.run_epoch() for _ in range(3)]
    assert counted.read == [TRAIN.tolist()]
    assert losses[2] < losses[0]


@pytest.mark.parametrize('batch_bags', [None, 16])
def test_same_seed_same_weights(batch_bags):
    bags, outs = latch(), []
    for seed in (1, 1, 2):
        model = make(bags, dropout=0.5)
        options = BagOptions(epochs=3, batch_bags=batch_bags, seed=seed)
        fit_bags(model, bags, TRAIN, options=options)
        outs.append(bag_logits(model, bags))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])


def test_logits_in_parts_are_those_of_all():
    bags = latch()
    model = make(bags, dropout=0.5)
    whole = bag_logits(model, bags)
    assert model.training
    torch.testing.assert_close(bag_logits(model, bags, None, 7), whole)
    with torch.no_grad():
        expected = model.eval()(bags.x, bags.batch, 60)
    torch.testing.assert_close(whole, expected)


def test_three_classes_have_no_auc():
    x, ptr = torch.eye(3).repeat(4, 1), torch.arange(13)
    bags = Bags(x, ptr, torch.arange(12) % 3)
    model = HopfieldClassifier(3, 8, 3, heads=2)
    train, val = torch.arange(12).split([9, 3])
    options = BagOptions(epochs=80, lr=0.02, eval_every=80)
    (record,) = fit_bags(model, bags, train, val, options).history
    assert set(record) == {'epoch', 'loss', 'val_loss', 'val_accuracy'}
    assert record['val_accuracy'] == 1.0


def test_patience():
    bags = latch()
    wrong = replace(bags, y=1 - bags.y)
    y = torch.cat([bags.y[TRAIN], wrong.y[40:]])
    options = BagOptions(lr=0.02, patience=3)
    fit = fit_bags(make(bags), replace(bags, y=y), TRAIN, VAL, options)
    assert len(fit.history) == fit.best_epoch + 3 < 100


def test_divergence_and_bad_arguments():
    bags = latch()
    with pytest.raises(FloatingPointError, match='diverged in epoch'):
        fit_bags(make(bags), bags, TRAIN, options=BagOptions(lr=1e30))
    with pytest.raises(ValueError, match='disjoint'):
        fit_bags(make(bags), bags, TRAIN, TRAIN[:3])
    with pytest.raises(ValueError, match='training bags'):
        fit_bags(make(bags), bags, TRAIN[:0])
    with pytest.raises(ValueError, match=r'logits of shape \[40, C\]'):
        fit_bags(_OneLogit(make(bags)), bags, TRAIN)
    with pytest.raises(ValueError, match="'batch_bags' >= 1"):
        BagOptions(batch_bags=-1)
    with pytest.raises(ValueError, match="'epochs'"):
        BagOptions(epochs=0)


class _OneLogit(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args):
        return self.model(*args)[:, 0]
