import numpy as np
import pytest
from scipy.stats import ttest_rel

from torch_energy_graph.bench import Unit
from torch_energy_graph.bench.compare import (
    by_split,
    difference,
    differences_text,
)


def pair(model, split, value, seed=0, status='ok'):
    row = {'status': status, 'test': {'auprc': value}}
    return Unit('d', model, 'et-40pct', split, seed, {}), row


def test_intervals_are_those_of_the_paired_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.random(10), rng.random(10)
    found = difference(dict(enumerate(first)), dict(enumerate(second)))
    expected = ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose(found.interval, expected)
    assert found.mean == pytest.approx((first - second).mean())
    assert found.n == 10


def test_only_common_splits_are_paired():
    assert difference({0: 0.5}, {1: 0.5}) is None
    found = difference({0: 0.75, 1: 0.5}, {1: 0.25, 2: 0.9})
    assert (found.mean, found.interval, found.n) == (0.25, None, 1)


def test_seeds_of_a_split_are_averaged():
    pairs = [
        pair('et', 0, 0.25),
        pair('et', 0, 0.75, seed=1),
        pair('et', 1, 0.5, status='failed'),
        (pair('et', 2, 0)[0], None),
    ]
    assert by_split(pairs) == {'et': {0: 0.5}}


def test_the_reference_is_the_strongest_tree():
    pairs = [
        *(pair('histgb', s, v) for s, v in enumerate((0.3, 0.5))),
        *(pair('xgb_agg', s, v) for s, v in enumerate((0.6, 0.8))),
        *(pair('et', s, v) for s, v in enumerate((0.7, 0.9))),
        pair('gcn', 1, 0.5),
    ]
    text = differences_text(pairs)
    assert 'that of `xgb_agg`' in text
    assert '| et | +0.100 | +0.100 to +0.100 | 2 |' in text
    assert '| gcn | -0.300 | - | 1 |' in text
    assert '| xgb_agg |' not in text
    assert differences_text([pair('et', 0, 0.5), pair('mlp', 0, 0.4)]) == ''
