import itertools
import math

import pytest
import torch

from torch_energy_graph.energies.binary import (
    ClassicHopfield,
    DenseAssociativeMemory,
)


def signs(*size, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return 2.0 * torch.randint(2, size, generator=gen) - 1


def flip(state, count, seed=0):
    """Flips so many coordinates of every row."""
    gen = torch.Generator().manual_seed(seed)
    noise = torch.rand(state.shape, generator=gen)
    wrong = noise.argsort(-1).argsort(-1) < count
    return torch.where(wrong, -state, state)


def bit_error(found, expected):
    return (found != expected).double().mean().item()


MEMORIES = {
    'classic': ClassicHopfield,
    'classic with bias': lambda patterns: ClassicHopfield(
        patterns, bias=0.1 * signs(patterns.size(1), seed=2)
    ),
    'quadratic': lambda patterns: DenseAssociativeMemory(patterns, 'power', 2),
    'cubic': lambda patterns: DenseAssociativeMemory(patterns, 'power', 3),
    'quartic': lambda patterns: DenseAssociativeMemory(patterns, 'power', 4),
    'exp': DenseAssociativeMemory,
}
each_memory = pytest.mark.parametrize('make', MEMORIES.values(), ids=MEMORIES)


def test_classic_network_by_hand():
    memory = ClassicHopfield(torch.tensor([[1, 1, -1], [1, -1, -1]]))
    w = memory.weight * 3
    assert w.tolist() == [[0, 0, -2], [0, 0, 0], [-2, 0, 0]]
    state = torch.tensor([1, -1, 1])
    assert memory.energy(state).item() == pytest.approx(2 / 3)
    # fields -2, 0 and -2 over 3: the tie keeps -1
    assert memory.update(state).tolist() == [-1, -1, -1]
    # in turn, the last coordinate sees that the first has changed
    assert memory.retrieve(state).tolist() == [-1, -1, 1]


def test_energy_of_a_dense_memory_by_hand():
    patterns, state = torch.tensor([[1, 1], [1, -1]]), torch.tensor([1, 1])
    cubic = DenseAssociativeMemory(patterns, 'power', 3)
    assert cubic.energy(state).item() == -1.0  # overlaps 2 and 0, over 2
    exp = DenseAssociativeMemory(patterns)
    expected = -math.log(math.exp(2) + 1)
    assert exp.energy(state).item() == pytest.approx(expected)


@each_memory
def test_one_sweep_is_greedy_in_the_energy(make):
    """Every coordinate goes where the energy of Eq. (1) or (3) is lower."""
    memory = make(signs(5, 9))
    for state in signs(6, 9, seed=1):
        expected = state.clone()
        for coordinate in range(9):
            high, low = expected.clone(), expected.clone()
            high[coordinate], low[coordinate] = 1, -1
            gain = (memory.energy(low) - memory.energy(high)).item()
            if abs(gain) > 1e-12:
                expected[coordinate] = math.copysign(1, gain)
        assert torch.equal(memory.retrieve(state, sweeps=1), expected)


@each_memory
def test_energy_never_rises_and_states_come_to_rest(make):
    memory = make(signs(8, 20))
    gen = torch.Generator().manual_seed(0)
    state = signs(30, 20, seed=1)
    energy = memory.energy(state)
    for _ in range(4):
        state = memory.retrieve(state, sweeps=1, generator=gen)
        assert (memory.energy(state) <= energy + 1e-12).all()
        energy = memory.energy(state)
    rest = memory.retrieve(state, sweeps=100)
    assert torch.equal(memory.retrieve(rest, sweeps=1, generator=gen), rest)


def test_a_coordinate_may_support_itself():
    patterns, state = signs(8, 20), signs(30, 20, seed=1)
    memory = ClassicHopfield(patterns, zero_diagonal=False)
    assert (memory.weight.diagonal() == 8 / 20).all()
    other = ClassicHopfield(patterns)
    # E differs by a constant: half of the trace
    torch.testing.assert_close(
        memory.energy(state), other.energy(state) - 8 / 2
    )
    rest = memory.retrieve(state, sweeps=100)
    assert (memory.energy(rest) <= memory.energy(state)).all()
    assert not torch.equal(rest, other.retrieve(state, sweeps=100))


def test_updates_at_once_may_cycle():
    """Two coordinates that want to differ swap for ever."""
    memory = ClassicHopfield(torch.tensor([[1, -1]]))
    state = torch.tensor([1, 1])
    assert memory.update(state).tolist() == [-1, -1]
    assert torch.equal(memory.update(memory.update(state)), state)
    assert memory.retrieve(state).tolist() == [-1, 1]
    for start in itertools.product([-1, 1], repeat=2):
        once = memory.update(memory.update(torch.tensor(start)))
        assert once.tolist() == list(start)  # no longer cycle


def test_states_at_rest_are_their_own_updates():
    memory = ClassicHopfield(signs(5, 200))
    rest = memory.retrieve(flip(signs(5, 200), 20))
    assert torch.equal(memory.update(rest), rest)


def test_inverse_images():
    memory = ClassicHopfield(signs(5, 100))
    state = signs(7, 100, seed=1)
    torch.testing.assert_close(memory.energy(-state), memory.energy(state))
    biased = ClassicHopfield(signs(5, 100), bias=0.3 * torch.ones(100))
    difference = biased.energy(state) - biased.energy(-state)
    torch.testing.assert_close(difference, 0.6 * state.double().sum(-1))


def test_capacity_cliff_of_the_classical_network():
    """Few errors at 0.1 d patterns, many beyond 0.138 d."""

    def error(load, dim=300):
        patterns = signs(int(load * dim), dim)
        found = ClassicHopfield(patterns).retrieve(patterns, sweeps=20)
        return bit_error(found, patterns)

    assert error(0.05) < 1e-3
    assert error(0.10) < 0.01
    assert error(0.20) > 0.1


@pytest.mark.parametrize(
    ('options', 'holds', 'fails'),
    [
        ({'interaction': 'power', 'degree': 2}, 3, 50),
        ({'interaction': 'power', 'degree': 3}, 40, 1000),
        ({'interaction': 'power', 'degree': 4}, 200, None),
        ({'interaction': 'exp'}, 1000, None),
    ],
)
def test_capacity_grows_with_the_interaction(options, holds, fails):
    """One sweep corrects 6 of 64 bits, up to the capacity."""

    def error(count):
        patterns = signs(count, 64)
        memory = DenseAssociativeMemory(patterns, **options)
        some = patterns[:50]
        return bit_error(memory.retrieve(flip(some, 6), sweeps=1), some)

    assert error(holds) < 0.005
    if fails is not None:
        assert error(fails) > 0.15


def test_quadratic_memory_is_the_classical_network():
    patterns, state = signs(6, 31), signs(9, 31, seed=1)
    classic = ClassicHopfield(patterns)
    dense = DenseAssociativeMemory(patterns, 'power', 2)
    # E differs by the diagonal, a constant, and the scale
    torch.testing.assert_close(
        dense.energy(state) * 31**2, 2 * 31 * classic.energy(state) - 6 * 31
    )
    for sweeps in (1, 5):
        assert torch.equal(
            dense.retrieve(state, sweeps), classic.retrieve(state, sweeps)
        )


def test_large_dimensions_stay_finite():
    patterns = signs(3, 2000)
    state = flip(patterns, 200)
    for options in ({'interaction': 'exp'}, {'degree': 100}):
        memory = DenseAssociativeMemory(
            patterns, **{'interaction': 'power', **options}
        )
        assert memory.energy(state).isfinite().all()
        found = memory.retrieve(state, sweeps=1)
        assert torch.equal(found, patterns)


def test_states_of_a_batch_are_independent():
    memory = DenseAssociativeMemory(signs(20, 16), 'power', 3)
    state = signs(2, 5, 16, seed=1)
    found = memory.retrieve(state)
    assert memory.energy(state).shape == (2, 5)
    for row in range(2):
        for column in range(5):
            alone = memory.retrieve(state[row, column])
            assert torch.equal(alone, found[row, column])


def test_input_and_type_are_kept():
    memory = ClassicHopfield(signs(2, 8).to(torch.int8))
    state = signs(8).to(torch.int8)
    before = state.clone()
    assert memory.retrieve(state).dtype == torch.int8
    assert memory.update(state).dtype == torch.int8
    assert torch.equal(state, before)


def test_errors():
    with pytest.raises(ValueError, match=r'got 0.0\); turn bits into'):
        ClassicHopfield(torch.tensor([[1, 0, -1]]))
    with pytest.raises(ValueError, match=r'shape \[N, d\] \(got \[3\]\)'):
        ClassicHopfield(torch.ones(3))
    with pytest.raises(ValueError, match=r'per coordinate, \[3\]'):
        ClassicHopfield(torch.ones(2, 3), bias=torch.ones(2))
    memory = ClassicHopfield(torch.ones(2, 3))
    with pytest.raises(ValueError, match='must have 3 coordinates'):
        memory.retrieve(torch.ones(4))
    with pytest.raises(ValueError, match="'state' must have entries -1 and 1"):
        memory.energy(torch.tensor([1.0, math.nan, 1.0]))
    with pytest.raises(ValueError, match="'sweeps' must be >= 1"):
        memory.retrieve(torch.ones(3), sweeps=0)
    with pytest.raises(ValueError, match="'power' or 'exp'"):
        DenseAssociativeMemory(torch.ones(2, 3), 'cubic')
    with pytest.raises(ValueError, match='integer >= 2'):
        DenseAssociativeMemory(torch.ones(2, 3), 'power', 1)
