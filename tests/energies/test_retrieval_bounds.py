import math

import pytest
import torch

from torch_energy_graph.energies import retrieval_bounds
from torch_energy_graph.energies.retrieval import hopfield_retrieve
from torch_energy_graph.energies.retrieval_bounds import (
    binary_capacity,
    contraction_bound,
    pattern_separation,
    retrieval_error_bound,
    storage_capacity,
    well_separated,
)


def sphere(count, dim, radius, seed=0):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(count, dim, generator=gen, dtype=torch.double)
    return radius * x / x.norm(dim=-1, keepdim=True)


def near(stored, distance, seed=1):
    return stored + sphere(*stored.shape, distance, seed)


@pytest.mark.parametrize('block', [1, 3, 4096])
def test_separation_by_hand(monkeypatch, block):
    monkeypatch.setattr(retrieval_bounds, '_BLOCK', block)
    stored = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, -3.0], [1.0, 0.0]])
    # overlaps: 2 with (1, 1); 2 with (2, 0); 0; 2 with (2, 0)
    assert pattern_separation(stored).tolist() == [2.0, 0.0, 9.0, -1.0]


def test_one_pattern_has_no_rival():
    stored = torch.tensor([[2.0, 0.0]])
    assert pattern_separation(stored).tolist() == [math.inf]
    assert well_separated(stored).tolist() == [True]
    assert retrieval_error_bound(stored, 10.0).tolist() == [0.0]
    assert contraction_bound(stored, 10.0).tolist() == [0.0]


def test_no_patterns():
    stored = torch.zeros(0, 3)
    assert pattern_separation(stored).shape == (0,)
    assert well_separated(stored).shape == (0,)


@pytest.mark.parametrize('beta', [1.0, 2.0, 8.0])
@pytest.mark.parametrize('distance', [0.0, 0.1, 0.5])
def test_error_after_one_update(beta, distance):
    stored = sphere(50, 32, 3.0)
    found = hopfield_retrieve(near(stored, distance), stored, beta)
    error = (found - stored).norm(dim=-1)
    bound = retrieval_error_bound(stored, distance, beta)
    assert (error <= bound).all()
    if beta == 8.0 and distance == 0.0:
        assert bound.max() < 1e-3  # says something
        assert bound.max() < 1e4 * error.max()


@pytest.mark.parametrize('beta', [1.0, 4.0])
def test_contraction_towards_the_fixed_point(beta):
    stored = sphere(40, 32, 3.0)
    fixed = hopfield_retrieve(stored, stored, beta, 1000, tol=1e-15)
    state = near(stored, 0.2)
    before = (state - fixed).norm(dim=-1)
    found = hopfield_retrieve(state, stored, beta)
    after = (found - fixed).norm(dim=-1)
    own = (fixed - stored).norm(dim=-1)
    bound = contraction_bound(stored, own.clamp(min=0.2), beta)
    held = own < 1  # a fixed point of this pattern
    assert held.any()
    assert (after[held] <= bound[held] * before[held] + 1e-12).all()


def test_jacobian_is_below_its_bound():
    stored = sphere(30, 16, 3.0)
    state = near(stored, 0.1)
    bound = contraction_bound(stored, 0.1, 2.0)
    for number in range(30):
        jacobian = torch.autograd.functional.jacobian(
            lambda xi: hopfield_retrieve(xi.unsqueeze(0), stored, 2.0)[0],
            state[number],
        )
        norm = torch.linalg.matrix_norm(jacobian, ord=2)
        assert norm <= bound[number]


def test_well_separated_patterns_are_fixed_points():
    """Eq. (5): the ball of radius 1 / (beta N M) maps into itself."""
    beta, count = 3.0, 20
    stored = sphere(count, 24, 3.0)
    stored = torch.cat([stored, stored[:1] + 0.01])  # a twin of pattern 0
    separated = well_separated(stored, beta)
    assert not separated[0]
    assert not separated[-1]
    assert separated[1:-1].all()
    radius = 1 / (beta * (count + 1) * stored.norm(dim=-1).max().item())
    states = near(stored, radius)[separated]
    for _ in range(5):
        states = hopfield_retrieve(states, stored, beta)
        distance = (states - stored[separated]).norm(dim=-1)
        assert (distance <= radius).all()
    assert (contraction_bound(stored, radius, beta)[separated] <= 1).all()


def test_fixed_points_of_the_research_example():
    """d = 64, N = 200, beta = 2, M = 3, as measured with other code."""
    stored = sphere(200, 64, 3.0)
    found = hopfield_retrieve(stored, stored, 2.0, 100, tol=1e-14)
    error = (found - stored).norm(dim=-1)
    delta, radius = pattern_separation(stored), 3.0
    limit = 2 * math.e * 199 * radius * (-2.0 * delta).exp()
    inside = error <= 1 / (2 * 2.0 * radius)
    assert inside.any()
    assert (error[inside] <= limit[inside]).all()


@pytest.mark.parametrize(
    ('dim', 'factor', 'c', 'capacity'),
    [(20, 3.0, 3.1546, 7.4), (75, 1.0, 1.3719, 11.0)],
)
def test_capacity_of_the_paper(dim, factor, c, capacity):
    found = storage_capacity(dim, 1.0, factor, 0.001)
    expected = math.sqrt(0.001) * c ** ((dim - 1) / 4)
    assert found == pytest.approx(expected, rel=1e-2)
    assert found == pytest.approx(capacity, rel=0.02)


def test_capacity_grows_exponentially_or_does_not_apply():
    low, high = (storage_capacity(dim, 1.0, 3.0) for dim in (40, 80))
    assert high > 100 * low > 0
    assert storage_capacity(20, 1.0, 0.5) == 0.0


def test_binary_capacity():
    log = math.log(100)
    assert binary_capacity(100) == pytest.approx(100 / (2 * log))
    assert binary_capacity(100, degree=3) == pytest.approx(1e4 / (6 * log))
    assert binary_capacity(100, degree=4) == pytest.approx(1e6 / (30 * log))
    assert binary_capacity(20, 'exp') == 1024


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: pattern_separation(torch.ones(3)), r'\[N, d\] \(got \[3\]'),
        (lambda: well_separated(torch.ones(2, 3), 0.0), "'beta' must be > 0"),
        (lambda: storage_capacity(1), "'dim' must be >= 2"),
        (lambda: storage_capacity(9, failure=1.0), "'failure' must be"),
        (lambda: binary_capacity(9, 'cubic'), "got 'cubic'"),
        (lambda: binary_capacity(9, degree=1), 'must be >= 2'),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
