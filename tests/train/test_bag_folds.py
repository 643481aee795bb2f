import numpy as np
import pytest
import torch

from torch_energy_graph.datasets.bags import Bags
from torch_energy_graph.datasets.toy_bags import latch_bags
from torch_energy_graph.nn.models.hopfield_classifier import HopfieldClassifier
from torch_energy_graph.train.bag_folds import (
    bag_folds,
    bag_learner,
    cross_validate_bags,
)
from torch_energy_graph.train.bags import BagOptions, bag_logits, fit_bags


def numbered(num_bags=20):
    """Bags of one instance, its number."""
    x = torch.arange(float(num_bags)).view(-1, 1)
    return Bags(x, torch.arange(num_bags + 1), torch.arange(num_bags) % 2)


def test_folds_are_stratified_parts():
    y = torch.tensor([0] * 30 + [1] * 10)
    folds = bag_folds(y, 5, seed=1)
    assert torch.cat(folds).sort().values.tolist() == list(range(40))
    for fold in folds:
        assert y[fold].bincount().tolist() == [6, 2]
    again, other = bag_folds(y, 5, seed=1), bag_folds(y, 5, seed=2)
    assert all(map(torch.equal, folds, again))
    assert not all(map(torch.equal, folds, other))
    with pytest.raises(ValueError, match='from 2 to 10'):
        bag_folds(y, 11)


def test_who_is_trained_on_what():
    bags, folds = numbered(), bag_folds(numbered().y, 5)
    left_out = []

    def learner(bags, train):
        kept = set(train.tolist())
        out = [
            i for i, fold in enumerate(folds) if kept.isdisjoint(fold.tolist())
        ]
        assert len(kept) == 20 - 4 * len(out)
        left_out.append(tuple(out))
        return np.zeros((1, 20))

    calls = []
    cross_validate_bags({'a': learner}, bags, folds, lambda: calls.append(1))
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    assert left_out == [*pairs, (0,), (1,), (2,), (3,), (4,)]
    assert len(calls) == 10


def test_a_learner_that_remembers_is_no_better_than_chance():
    """It would win if any label of a test or validation bag got in."""
    bags, folds = numbered(), bag_folds(numbered().y, 5)
    y = bags.y.numpy()

    def remembers(bags, train):
        scores = np.zeros((2, 20))
        scores[:, train] = 2 * y[train] - 1
        return scores

    for result in cross_validate_bags({'a': remembers}, bags, folds):
        assert (result.auc, result.checkpoint) == (0.5, 0)


def test_setting_and_checkpoint_are_chosen_on_the_neighbours():
    bags, folds = numbered(), bag_folds(numbered().y, 5)
    sign = 2.0 * bags.y.numpy() - 1

    def right_on(*good):
        """Right scores at checkpoint 1, on these folds alone."""

        def learner(bags, train):
            scores = np.stack([-sign, -sign])
            for i in good:
                scores[1, folds[i]] *= -1
            return scores

        return learner

    learners = {'first': right_on(0, 1), 'second': right_on(2, 3, 4)}
    results = cross_validate_bags(learners, bags, folds)
    # fold i is served by folds i - 1 and i + 1 of a ring, ties by the first
    names = [result.setting for result in results]
    assert names == ['first', 'first', 'first', 'second', 'first']
    # right where the test fold is among the good ones of its setting
    assert [result.auc for result in results] == [1, 1, 0, 1, 0]
    assert [result.accuracy for result in results] == [1, 1, 0, 1, 0]
    assert results[3].scores == sign[folds[3]].tolist()
    assert {result.checkpoint for result in results} == {1}


def test_a_learner_is_a_training_from_scratch():
    bags = latch_bags(40, length=6, num_symbols=5)
    train = torch.arange(30)
    options = BagOptions(epochs=7, lr=0.01, eval_every=3, seed=5)

    def build(in_channels):
        return HopfieldClassifier(in_channels, 8, heads=2, dropout=0.5)

    before = torch.random.get_rng_state()
    scores = bag_learner(build, options)(bags, train)
    assert torch.equal(before, torch.random.get_rng_state())
    assert scores.shape == (3, 40)
    assert np.array_equal(scores, bag_learner(build, options)(bags, train))
    scaled = bags.scaled_by(train)
    torch.manual_seed(5)
    model = build(5)
    fit_bags(model, scaled, train, options=options)
    logits = bag_logits(model, scaled).double()
    np.testing.assert_allclose(scores[-1], logits[:, 1] - logits[:, 0])
    plain = bag_learner(build, options, scale=False)(bags, train)
    assert not np.allclose(plain[-1], scores[-1])


def test_wrong_arguments():
    bags = numbered()
    learners = {'a': lambda bags, train: np.zeros((1, 20))}
    with pytest.raises(ValueError, match='at least 3 folds'):
        cross_validate_bags(learners, bags, bag_folds(bags.y, 2))
    halves = [*torch.arange(0, 20, 2).split(5), torch.arange(1, 20, 2)]
    with pytest.raises(ValueError, match='bags of both classes'):
        cross_validate_bags(learners, bags, halves)
