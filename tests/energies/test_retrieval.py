import math

import numpy as np
import pytest
import torch

from torch_energy_graph.energies.hopfield import hopfield_energy
from torch_energy_graph.energies.retrieval import (
    hopfield_associate,
    hopfield_retrieve,
    retrieval_energy,
    retrieval_energy_grad,
)
from torch_energy_graph.energies.separation import SEPARATIONS
from torch_energy_graph.energies.sets import set_pairs

SIZES = [4, 0, 1, 30]


def random(*size, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=gen, dtype=torch.double)


def bags(seed=0, heads=2, width=3):
    """Patterns [35, H, d] of four sets, unsorted, and two states of each."""
    gen = torch.Generator().manual_seed(seed)
    index = torch.arange(4).repeat_interleave(torch.tensor(SIZES))
    index = index[torch.randperm(sum(SIZES), generator=gen)]
    stored = random(sum(SIZES), heads, width, seed=seed)
    return random(4, 2, heads, width, seed=seed + 1), stored, index


def brute_force(state, stored, beta, steps):
    """Softmax retrieval of one state, in numbers."""
    x, xi = stored.tolist(), state.tolist()
    for _ in range(steps):
        scores = [
            beta * sum(a * b for a, b in zip(row, xi, strict=True))
            for row in x
        ]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        total = sum(weights)
        xi = [
            sum(w * row[k] for w, row in zip(weights, x, strict=True)) / total
            for k in range(len(xi))
        ]
    return torch.tensor(xi, dtype=torch.double)


def test_softmax_by_brute_force():
    state, stored = random(5), random(7, 5, seed=1)
    found = hopfield_retrieve(state.unsqueeze(0), stored, 1.7, steps=3)
    expected = brute_force(state, stored, 1.7, 3)
    torch.testing.assert_close(found[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('case', ['T0', 'T1', 'T5'])
def test_reference_implementation(case, shared_root, require_file):
    path = require_file(shared_root / 'golden' / 'hopfield_reference.npz')
    with np.load(path, allow_pickle=False) as file:
        state, stored, out, beta, extra = (
            torch.from_numpy(file[f'retrieval_{case}/{name}'].copy())
            for name in ('state', 'stored', 'out', 'beta', 'update_steps')
        )
    found = hopfield_retrieve(state, stored, float(beta), int(extra) + 1)
    torch.testing.assert_close(found, out, rtol=0, atol=1e-9)


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_energy_of_one_pattern_by_hand(separation):
    """The conjugate of one score z is z, or log(1 + exp(z))."""
    state, stored = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.0]])
    found = retrieval_energy(state, stored, 0.5, separation).item()
    if separation == 'softmax1':
        gain = (math.log(1 + math.exp(1.5)) - math.log(2)) / 0.5
    else:
        gain = 3.0
    assert found == pytest.approx(2.5 + 4.5 - gain, rel=1e-6)


def test_the_memory_term_of_the_energy_transformer():
    state, stored = random(6, 4), random(9, 4, seed=1)
    energy = hopfield_energy(state, stored, 'softmax', beta=2.0)
    squares = state.square().sum(-1) + stored.square().sum(-1).max()
    expected = energy + math.log(9) / 2 + squares / 2
    torch.testing.assert_close(retrieval_energy(state, stored, 2.0), expected)


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('with_bias', [False, True])
def test_gradient_is_exact(separation, with_bias):
    state, stored, index = bags()
    state.requires_grad_()
    beta = torch.tensor([0.5, 3.0]).double()
    bias = None
    if with_bias:
        bias = random(sum(SIZES), 2, 2, seed=3)
        bias[::3] = -torch.inf
    options = {'index': index, 'bias': bias, 'separation': separation}
    energy = retrieval_energy(state, stored, beta, **options)
    assert energy.shape == (4, 2, 2)
    expected = torch.autograd.grad(energy.sum(), state)[0]
    found = retrieval_energy_grad(state, stored, beta, **options)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('damping', [0.01, 0.5, 1.0, 1.5, 1.99])
def test_energy_falls_by_the_amount_that_is_promised(separation, damping):
    """Eq. (4), for every separation function and several temperatures."""
    stored = random(20, 4)
    for beta in (0.1, 1.0, 10.0):
        state = 2 * random(50, 4, seed=1)
        options = {'beta': beta, 'separation': separation}
        for _ in range(5):
            energy = retrieval_energy(state, stored, **options)
            grad = retrieval_energy_grad(state, stored, **options)
            state = hopfield_retrieve(
                state, stored, damping=damping, **options
            )
            change = retrieval_energy(state, stored, **options) - energy
            bound = damping * (2 - damping) / 2 * grad.square().sum(-1)
            assert (change <= -bound + 1e-9).all()


def test_a_longer_step_raises_the_energy():
    """The converse: one pattern is a parabola, and 2 its other side."""
    stored = torch.tensor([[1.0, 2.0]]).double()
    state = torch.tensor([[3.0, 0.0]]).double()
    grad = retrieval_energy_grad(state, stored)
    for damping, rises in ((1.99, False), (2.1, True)):
        after = retrieval_energy(state - damping * grad, stored)
        assert (after > retrieval_energy(state, stored)).item() is rises


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('beta', [0.05, 1.0, 20.0])
def test_energy_in_the_convex_hull(separation, beta):
    stored = random(12, 3)
    mean = random(500, 12, seed=1).mul(3).softmax(-1)
    state = torch.cat([mean @ stored, stored])
    energy = retrieval_energy(state, stored, beta, separation)
    limit = 2 * stored.square().sum(-1).max()
    assert (energy >= 0).all()
    assert (energy <= limit).all()
    far = retrieval_energy(10 * random(50, 3), stored, beta, separation)
    assert (far >= 0).all()  # everywhere


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('tol', [None, 1e-3])
def test_ragged_sets_are_sets_alone(separation, tol):
    state, stored, index = bags()
    order = torch.argsort(index)
    ptr = torch.tensor([0, *SIZES]).cumsum(0)
    betas = [1.0, 4.0]
    args = torch.tensor(betas), 20, tol, separation, 0.8
    found = hopfield_retrieve(state, stored, *args, index=index)
    by_ptr = hopfield_retrieve(state, stored[order], *args, ptr=ptr)
    torch.testing.assert_close(by_ptr, found)
    energy = retrieval_energy(
        state, stored, torch.tensor(betas), separation, index=index
    )
    for number in range(4):
        patterns = stored[index == number]
        for head, beta in enumerate(betas):
            # a state of its own, so that no other can stop or prolong it
            for s in range(2):
                alone = state[number, s, head].unsqueeze(0)
                set_ = patterns[:, head]
                torch.testing.assert_close(
                    found[number, s, head],
                    hopfield_retrieve(alone, set_, beta, *args[1:])[0],
                )
                torch.testing.assert_close(
                    energy[number, s, head],
                    retrieval_energy(alone, set_, beta, separation)[0],
                )


def test_states_with_an_index_of_their_own():
    _, stored, index = bags(heads=1)
    stored = stored.squeeze(1)
    state_index = torch.tensor([3, 0, 0, 1, 3, 2, 0])
    state = random(7, 3, seed=5)
    sets = {'index': index, 'state_index': state_index}
    found, weights = hopfield_associate(state, stored, 2.0, 3, **sets)
    states, patterns = set_pairs(state_index, index)
    assert weights.shape == states.shape
    for row in range(7):
        patterns_of = stored[index == state_index[row]]
        alone = hopfield_retrieve(state[row : row + 1], patterns_of, 2.0, 3)
        torch.testing.assert_close(found[row], alone[0])
        p = weights[states == row] @ stored[patterns[states == row]]
        torch.testing.assert_close(p, found[row])


def test_tolerance_leaves_a_state_where_it_came_to_rest():
    stored = torch.eye(4).double()
    slow, fast = stored[:2].mean(0) + 1e-3 * stored[0], stored[3]
    state = torch.stack([slow, fast])
    both, weights = hopfield_associate(state, stored, 3.0, 200, tol=1e-2)
    for row in range(2):
        alone = hopfield_retrieve(state[row : row + 1], stored, 3.0, 200, 1e-2)
        assert torch.equal(alone[0], both[row])
    torch.testing.assert_close(weights @ stored, both)
    assert (both[1] - hopfield_retrieve(both, stored, 3.0)[1]).norm() < 1e-2
    everything = hopfield_retrieve(state, stored, 3.0, 200)
    assert not torch.equal(everything[1], both[1])


def test_tolerance_is_reached():
    state, stored = random(30, 6), random(50, 6, seed=1)
    found = hopfield_retrieve(state, stored, 1.0, 10_000, tol=1e-10)
    grad = retrieval_energy_grad(found, stored, 1.0)
    assert grad.norm(dim=-1).max() < 1e-9


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_empty_sets_and_sets_left_out(separation):
    state, stored = random(2, 3), random(4, 3, seed=1)
    index = torch.ones(4).long()
    options = {'separation': separation, 'index': index}
    bias = torch.full((4,), -torch.inf).double()
    for extra in ({}, {'bias': bias}):
        found = hopfield_retrieve(state, stored, 2.0, 3, **options, **extra)
        energy = retrieval_energy(state, stored, 2.0, **options, **extra)
        rows = slice(0, 1) if not extra else slice(None)
        assert (found[rows] == 0).all()
        expected = state[rows].square().sum(-1) / 2
        torch.testing.assert_close(energy[rows], expected)
    masked = hopfield_retrieve(state, stored, separation=separation, bias=bias)
    assert (masked == 0).all()


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_patterns_left_out_have_no_say(separation):
    state, stored = random(2, 5, 3), random(2, 7, 3, seed=1)
    bias = torch.zeros(2, 1, 7).double()
    bias[0, :, 4:] = -torch.inf  # padding
    stored[0, 4:] *= 100
    args = 1.5, 3, None, separation
    found = hopfield_retrieve(state, stored, *args, bias=bias)
    energy = retrieval_energy(state, stored, 1.5, separation, bias=bias)
    alone = state[0], stored[0, :4]
    torch.testing.assert_close(found[0], hopfield_retrieve(*alone, *args))
    torch.testing.assert_close(
        energy[0], retrieval_energy(*alone, 1.5, separation)
    )


def test_sparse_separation_returns_a_pattern_exactly():
    stored = 3 * torch.nn.functional.normalize(random(10, 8), dim=-1)
    state = stored + 0.1 * random(10, 8, seed=1)
    found = {
        name: hopfield_retrieve(state, stored, 4.0, 5, separation=name)
        for name in SEPARATIONS
    }
    assert torch.equal(found['sparsemax'], stored)
    torch.testing.assert_close(found['entmax15'], stored, atol=1e-12, rtol=0)
    assert not torch.equal(found['softmax'], stored)


def test_softmax1_has_one_more_pattern_at_zero():
    state, stored = random(4, 3), random(6, 3, seed=1)
    more = torch.cat([stored, torch.zeros(1, 3).double()])
    args = 2.0, 4, None
    torch.testing.assert_close(
        hopfield_retrieve(state, stored, *args, 'softmax1'),
        hopfield_retrieve(state, more, *args),
    )
    torch.testing.assert_close(
        retrieval_energy(state, stored, 2.0, 'softmax1'),
        retrieval_energy(state, more, 2.0),
    )


def test_beta_zero_is_the_mean():
    state, stored, index = bags()
    beta = torch.tensor([0.0, 5.0]).double()
    found = hopfield_retrieve(state, stored, beta, index=index)
    mean = stored[index == 3].mean(0)
    torch.testing.assert_close(found[3, :, 0], mean[0].expand(2, 3))
    assert (found[3, :, 1] - mean[1]).abs().max() > 0.1


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('sets', ['dense', 'index', 'ptr'])
def test_derivatives_of_second_order(separation, sets):
    options = {
        'dense': {},
        'index': {'index': torch.tensor([1, 0, 1])},
        'ptr': {'ptr': torch.tensor([0, 1, 3])},
    }[sets]
    state = random(2, 2).requires_grad_()
    stored = random(3, 2, seed=4).requires_grad_()

    def function(state, stored):
        out = hopfield_retrieve(
            state, stored, 2.0, 2, None, separation, 0.7, **options
        )
        return out, retrieval_energy(state, stored, 2.0, separation, **options)

    inputs = state, stored
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize('separation', ['softmax', 'entmax15'])
def test_compiles_whole(separation):
    state, stored, index = bags(heads=1)
    args = 2.0, 2, 1e-3, separation

    def both(state, stored):
        ragged = hopfield_retrieve(state, stored, *args, index=index)
        # states and patterns without their axis of heads
        dense = hopfield_retrieve(state[:, :, 0], stored[:, 0], *args)
        return ragged, dense

    compiled = torch.compile(both, backend='aot_eager', fullgraph=True)
    found, expected = compiled(state, stored), both(state, stored)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_types(dtype):
    state, stored, index = bags()
    half = state.to(dtype), stored.to(dtype)
    found = hopfield_retrieve(*half, index=index)
    assert found.dtype == dtype
    wide = [value.double() for value in half]
    expected = hopfield_retrieve(*wide, index=index)
    error = (found.double() - expected).abs().max()
    assert error < 8 * torch.finfo(dtype).eps
    energy = retrieval_energy(*half, index=index)
    assert energy.dtype == torch.float32
    expected = retrieval_energy(*wide, index=index)
    torch.testing.assert_close(energy.double(), expected, rtol=1e-5, atol=1e-5)


def test_large_scores_stay_finite():
    state, stored = 1e3 * torch.ones(1, 2), 1e3 * torch.eye(2)
    for separation in SEPARATIONS:
        args = state, stored, 10.0
        found = hopfield_retrieve(*args, separation=separation)
        torch.testing.assert_close(found, torch.full((1, 2), 500.0))
        assert retrieval_energy(*args, separation).isfinite().all()


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'steps': 0}, r"'steps' must be >= 1 \(got 0\)"),
        ({'tol': -1.0}, "'tol' must be >= 0"),
        ({'tol': math.nan}, "'tol' must be >= 0"),
        ({'damping': 2.0}, "'damping' must lie between 0 and 2"),
        ({'damping': 0.0}, "'damping' must lie between 0 and 2"),
        ({'beta': -1.0}, r"'beta' must be >= 0 \(got -1"),
        ({'beta': torch.tensor([1.0, math.nan, 1.0])}, "'beta' must be >= 0"),
        ({'separation': 'hardmax'}, r"\(got 'hardmax'\)"),
        ({'state': torch.ones(3, 5)}, r'same d \(got \[3, 5\] and \[4, 2\]'),
        ({'stored': torch.ones(2)}, r'\[\*, S, d\] and \[\*, N, d\]'),
        ({'bias': torch.ones(5)}, r"'bias' must broadcast .* \[3, 4\]"),
        ({'state_index': torch.ones(3)}, "needs 'index' or 'ptr'"),
        (
            {'index': torch.ones(4).long(), 'state_index': torch.ones(2)},
            r'set of every state, \[3\] \(got \[2\]\)',
        ),
        ({'ptr': torch.tensor([0, 4])}, r'bounds of 3 sets, \[4\]'),
    ],
)
def test_errors(options, message):
    args = {'state': torch.ones(3, 2), 'stored': torch.ones(4, 2), **options}
    with pytest.raises(ValueError, match=message):
        hopfield_retrieve(**args)


def test_no_energy_without_temperature():
    with pytest.raises(ValueError, match="'beta' must be > 0 for an energy"):
        retrieval_energy(torch.ones(3, 2), torch.ones(4, 2), 0.0)


def test_index_beyond_the_states():
    index = torch.tensor([0, 3, 1, 1])
    with pytest.raises(IndexError, match='names set 3, but there are only 3'):
        hopfield_retrieve(torch.ones(3, 2), torch.ones(4, 2), index=index)
