from functools import partial

import pytest
import torch

from torch_energy_graph.datasets.toy_bags import (
    bit_pattern_bags,
    image_bags,
    latch_bags,
)


def codes_of(bags, size):
    places = 2 ** torch.arange(bags.x.size(1))
    return (bags.x.long() * places).sum(1).view(-1, size)


def test_bit_patterns_hold_one_signal_or_none():
    bags = bit_pattern_bags(101, 16, num_bits=6, num_signals=5, seed=3)
    assert bags.y.tolist() == [1] * 51 + [0] * 50
    assert bags.ptr.diff().unique().tolist() == [16]
    assert set(bags.x.unique().tolist()) == {0.0, 1.0}
    codes = codes_of(bags, 16)
    assert codes.min() > 0
    noise = set(codes[bags.y == 0].unique().tolist())
    signals = set(codes[bags.y == 1].unique().tolist()) - noise
    assert len(noise) == 2**6 - 1 - 5
    assert len(signals) == 5
    hits = torch.isin(codes, torch.tensor(sorted(signals)))
    assert torch.equal(hits.sum(1), bags.y)
    assert hits.any(0).sum() > 10  # anywhere in a bag


def test_the_class_of_a_latch_is_its_first_symbol():
    bags = latch_bags(200, length=9, num_symbols=6, seed=1)
    assert (bags.x.sum(1) == 1).all()
    symbols = bags.x.argmax(1).view(-1, 9)
    assert torch.equal(symbols[:, 0], bags.y)
    assert symbols[:, 1:].unique().tolist() == [2, 3, 4, 5]
    assert 60 < int(bags.y.sum()) < 140


def images():
    """Forty images of 2 x 2 pixels; the value of an image is its number."""
    numbers = torch.arange(40)
    x = numbers.view(-1, 1, 1).expand(40, 2, 2).float()
    return x, numbers % 10


def test_seeds_decide_all():
    for draw in (bit_pattern_bags, latch_bags, partial(image_bags, *images())):
        one, same, other = (
            draw(num_bags=8, seed=seed).x for seed in (0, 0, 1)
        )
        assert torch.equal(one, same)
        assert one.shape != other.shape or not torch.equal(one, other)


def test_bags_of_images():
    bags = image_bags(*images(), 3, 60, mean_size=5.0, std_size=2.0)
    assert bags.x.shape[1:] == (2, 2)
    assert bags.y.tolist() == [1, 0] * 30
    digits = bags.x[:, 0, 0].long() % 10
    for number in range(60):
        found = digits[bags.batch == number]
        assert bool((found == 3).any()) == bool(bags.y[number])
    assert digits.unique().tolist() == list(range(10))
    sizes = bags.ptr.diff().double()
    assert sizes.min() >= 1
    assert 4 < sizes.mean() < 6
    assert 1 < sizes.std() < 3
    single = image_bags(*images(), 3, 10, mean_size=1.0, std_size=0.0)
    assert (single.x[:, 0, 0][single.y == 1] % 10 == 3).all()


@pytest.mark.parametrize(
    ('draw', 'options', 'message'),
    [
        (bit_pattern_bags, {'num_bits': 3, 'num_signals': 7}, 'patterns'),
        (bit_pattern_bags, {'bag_size': 0}, 'at least one instance'),
        (latch_bags, {'num_symbols': 2}, 'num_symbols'),
        (partial(image_bags, *images()), {'num_bags': 0}, 'one bag'),
        (partial(image_bags, *images()), {'target': 10}, 'got 0 and 40'),
        (partial(image_bags, *images()), {'mean_size': 0.0}, 'mean_size'),
    ],
)
def test_bad_options(draw, options, message):
    with pytest.raises(ValueError, match=message):
        draw(**options)
