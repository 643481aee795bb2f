import pytest
import torch

from torch_energy_graph.energies.metastable import (
    METASTABLE_KINDS,
    metastable_kind,
    patterns_in_use,
)
from torch_energy_graph.energies.retrieval import hopfield_associate

EMPTY, SINGLE, CLUSTER, GLOBAL = range(len(METASTABLE_KINDS))


def test_count_by_hand():
    weights = torch.tensor(
        [
            [0.95, 0.05, 0.0, 0.0],
            [0.45, 0.1, 0.45, 0.0],
            [0.25, 0.25, 0.25, 0.25],
            [0.0, 0.0, 0.0, 0.0],
            [0.2, 0.0, 0.0, 0.0],  # the rest of softmax1 is on nothing
        ]
    )
    assert patterns_in_use(weights).tolist() == [1, 2, 4, 0, 1]
    assert patterns_in_use(weights, 0.5).tolist() == [1, 2, 2, 0, 1]
    kinds = [SINGLE, CLUSTER, GLOBAL, EMPTY, SINGLE]
    assert metastable_kind(weights).tolist() == kinds


def test_equal_weights_need_their_share():
    for size in (1, 2, 3, 10, 1000):
        weights = torch.full((size,), 1 / size)
        assert patterns_in_use(weights).item() == -(-9 * size // 10)


@pytest.mark.parametrize('by', ['index', 'ptr'])
def test_ragged_sets_are_sets_alone(by):
    gen = torch.Generator().manual_seed(0)
    index = torch.tensor([0] * 5 + [2] + [3] * 20)
    scores = 3 * torch.randn(26, 2, generator=gen)
    weights = torch.cat([scores[index == k].softmax(0) for k in range(4)])
    order = torch.randperm(26, generator=gen)
    if by == 'index':
        rows, sets = order, {'index': index[order], 'num_sets': 4}
    else:
        rows, sets = slice(None), {'ptr': torch.tensor([0, 5, 5, 6, 26])}
    count = patterns_in_use(weights[rows], 0.9, **sets)
    kind = metastable_kind(weights[rows], 0.9, **sets)
    for number in range(4):
        alone = weights[index == number].t()
        assert torch.equal(count[number], patterns_in_use(alone))
        assert torch.equal(kind[number], metastable_kind(alone))


def test_the_three_kinds_of_fixed_points():
    """Two clusters of four patterns, from low to high temperature."""
    gen = torch.Generator().manual_seed(0)
    centres = 3 * torch.eye(8)[:2].repeat_interleave(4, 0).double()
    noise = torch.randn(8, 8, generator=gen, dtype=torch.double)
    stored = centres + 0.7 * noise
    kinds = [
        metastable_kind(
            hopfield_associate(stored, stored, beta, 5000, tol=1e-12)[1]
        )
        for beta in (0.01, 0.3, 10.0)
    ]
    assert (kinds[0] == GLOBAL).all()
    assert (kinds[1] == CLUSTER).all()
    assert (kinds[2] == SINGLE).all()


def test_errors():
    with pytest.raises(ValueError, match=r"'mass' must be .* \(got 1.0\)"):
        patterns_in_use(torch.ones(3), 1.0)
