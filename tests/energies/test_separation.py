import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_energy_graph.energies.separation import (
    SEPARATIONS,
    separate,
    separation_conjugate,
)

CONJUGATE_AT_ZERO = {
    'softmax': lambda n: math.log(n),
    'sparsemax': lambda n: (1 - 1 / n) / 2,
    'entmax15': lambda n: (1 - n**-0.5) * 4 / 3,
    'softmax1': lambda n: math.log(n + 1),
}


def entropy(p, separation):
    if separation == 'softmax1':
        p = torch.cat([p, 1 - p.sum(-1, keepdim=True)], -1)
    if separation.startswith('softmax'):
        return torch.special.xlogy(p, p).sum(-1)
    if separation == 'sparsemax':
        return (p.square().sum(-1) - 1) / 2
    return (p.pow(1.5).sum(-1) - 1) * 4 / 3


def random(*size, seed=0, scale=1.0):
    gen = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*size, generator=gen, dtype=torch.double)


@pytest.mark.parametrize(
    ('separation', 'scores', 'expected'),
    [
        ('softmax', [0.0, math.log(3)], [0.25, 0.75]),
        ('softmax1', [0.0, math.log(3)], [0.2, 0.6]),
        ('sparsemax', [0.0, 0.5, -3.0], [0.25, 0.75, 0.0]),
        # (z / 2 - tau)^2: 0.6^2 + 0.8^2 = 1 at tau = -0.6
        ('entmax15', [0.0, 0.4, -2.0], [0.36, 0.64, 0.0]),
    ],
)
def test_weights_by_hand(separation, scores, expected):
    found = separate(torch.tensor(scores).double(), separation)
    torch.testing.assert_close(found, torch.tensor(expected).double())


@pytest.mark.parametrize('separation', SEPARATIONS)
@given(
    scores=st.lists(
        st.floats(-30, 30, allow_subnormal=False), min_size=1, max_size=12
    ),
    other=st.integers(0, 2**31),
)
def test_conjugate_is_the_maximum(separation, scores, other):
    """p z - Omega(p) is the conjugate at the weights, and less elsewhere."""
    z = torch.tensor(scores, dtype=torch.double)
    p = separate(z, separation)
    best = separation_conjugate(z, separation)
    torch.testing.assert_close(p @ z - entropy(p, separation), best)
    logits = random(len(scores) + 1, seed=other, scale=3.0)
    q = logits.softmax(0)[1:]
    q = q if separation == 'softmax1' else q / q.sum()
    assert q @ z - entropy(q, separation) <= best + 1e-9
    total = 1.0 if separation != 'softmax1' else 1 - 1 / (1 + z.exp().sum())
    assert p.min() >= 0
    assert p.sum().item() == pytest.approx(float(total), abs=1e-9)


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('size', [1, 2, 7, 1000])
def test_conjugate_at_zero_is_the_largest_entropy(separation, size):
    found = separation_conjugate(torch.zeros(size).double(), separation)
    expected = CONJUGATE_AT_ZERO[separation](size)
    assert found.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_gradient_of_the_conjugate_are_the_weights(separation):
    z = random(3, 6).requires_grad_()
    conjugate = separation_conjugate(z, separation).sum()
    grad = torch.autograd.grad(conjugate, z)[0]
    torch.testing.assert_close(grad, separate(z, separation))


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('by', ['index', 'ptr'])
def test_ragged_sets_are_sets_alone(separation, by):
    sizes = [3, 0, 1, 40]
    z = random(44, 2, scale=4.0)
    z[1, 0] = -torch.inf
    index = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    ptr = torch.tensor([0, 3, 3, 4, 44])
    order = torch.randperm(44) if by == 'index' else torch.arange(44)
    sets = {
        'index': {'index': index[order], 'num_sets': 4},
        'ptr': {'ptr': ptr},
    }
    weights = torch.empty_like(z)
    weights[order] = separate(z[order], separation, **sets[by])
    conjugate = separation_conjugate(z[order], separation, **sets[by])
    for number in range(4):
        alone = z[index == number].t()  # [2, N]
        torch.testing.assert_close(
            weights[index == number].t(), separate(alone, separation)
        )
        torch.testing.assert_close(
            conjugate[number], separation_conjugate(alone, separation)
        )


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('sets', [{}, {'index': torch.zeros(3).long()}])
def test_sets_without_patterns(separation, sets):
    z = torch.full((3,), -torch.inf, requires_grad=True)
    weights = separate(z, separation, **sets)
    assert weights.tolist() == [0.0, 0.0, 0.0]
    conjugate = separation_conjugate(z, separation, **sets)
    assert (conjugate == (0 if separation == 'softmax1' else -torch.inf)).all()
    grad = torch.autograd.grad(weights.sum(), z)[0]
    assert grad.tolist() == [0.0, 0.0, 0.0]
    grad = torch.autograd.grad(conjugate.sum(), z)[0]
    assert grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_patterns_left_out_have_no_say(separation):
    z = random(2, 4)
    wide = torch.cat([z, torch.full((2, 1), -torch.inf)], 1).requires_grad_()
    weights = separate(wide, separation)
    torch.testing.assert_close(weights[:, :4], separate(z, separation))
    assert (weights[:, 4] == 0).all()
    loss = weights.square().sum()
    loss = loss + separation_conjugate(wide, separation).sum()
    assert torch.autograd.grad(loss, wide)[0].isfinite().all()


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_empty_axis(separation):
    assert separate(torch.ones(2, 0), separation).shape == (2, 0)
    conjugate = separation_conjugate(torch.ones(2, 0), separation)
    assert conjugate.shape == (2,)


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_nan_is_not_hidden(separation):
    z = torch.tensor([[0.0, math.nan], [0.0, 1.0]])
    weights = separate(z, separation)
    assert weights[0].isnan().all()
    assert weights[1].isfinite().all()


@pytest.mark.parametrize('separation', SEPARATIONS)
@pytest.mark.parametrize('sets', [{}, {'index': torch.tensor([0, 1, 0])}])
def test_derivatives_of_second_order(separation, sets):
    z = torch.tensor([0.3, -0.2, 0.7]).double().requires_grad_()

    def function(z):
        value = separation_conjugate(z, separation, **sets).sum()
        return separate(z, separation, **sets), value

    assert torch.autograd.gradcheck(function, z)
    assert torch.autograd.gradgradcheck(function, z)


@pytest.mark.parametrize('power', [1, 2])
@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_threshold_of_hard_sets(power, dtype):
    """Scores spread over all scales, a case for many Newton steps."""
    z = -torch.logspace(-12, 3, 100_000, dtype=dtype)
    separation = ('sparsemax', 'entmax15')[power - 1]
    root = separate(z, separation).double().pow(1 / power)
    support = root > 0
    tau = z.double()[support] / power - root[support]  # one for all
    assert (tau.max() - tau.min()).item() < 100 * torch.finfo(dtype).eps
    total = root.pow(power).sum().item()
    assert total == pytest.approx(1, abs=2e4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_half_types_are_computed_in_float32(separation):
    z = random(5, 300).bfloat16()
    found = separate(z, separation)
    expected = separate(z.float(), separation).bfloat16()
    assert torch.equal(found, expected)
    assert separation_conjugate(z, separation).dtype == torch.float32


def test_errors():
    z = torch.zeros(3)
    with pytest.raises(ValueError, match=r"one of .* \(got 'hardmax'\)"):
        separate(z, 'hardmax')
    index = torch.tensor([0, 1, 1])
    with pytest.raises(ValueError, match='not both'):
        separate(z, index=index, ptr=torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r'\[3\] \(got \[2\]\)'):
        separate(z, index=index[:2])
    with pytest.raises(IndexError, match='names set 1, but there are only 1'):
        separate(z, index=index, num_sets=1)
    with pytest.raises(ValueError, match='from 0 to the number of patterns'):
        separate(z, ptr=torch.tensor([0, 2]))
    with pytest.raises(ValueError, match='from 0 to the number of patterns'):
        separate(z, ptr=torch.tensor([0, 4, 3]))
