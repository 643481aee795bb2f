"""Pair sums are compared with loops over pairs, in float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_energy_graph.energies import (
    diffusion_change,
    diffusion_energy,
    diffusion_energy_grad,
    diffusion_step,
    diffusivity,
    max_stable_tau,
    pair_diffusivity,
    pair_penalty,
)
from torch_energy_graph.ops import blocks
from torch_energy_graph.testing.graphs import random_graph

KERNELS = ('simple', 'sigmoid')

kernels = st.sampled_from(KERNELS)
seeds = st.integers(0, 2**31 - 1)
channels = st.integers(1, 5)
# sizes of the graphs of a batch: more and fewer nodes than channels
sizes = st.lists(st.integers(0, 9), min_size=1, max_size=5)


def ball(num_nodes, num_channels, seed=0, radius=1.0):
    """States within a ball, some of them on its sphere."""
    gen = torch.Generator().manual_seed(seed)
    shape = (num_nodes, num_channels)
    x = torch.randn(shape, generator=gen, dtype=torch.double)
    size = torch.rand(num_nodes, 1, generator=gen, dtype=torch.double)
    return radius * F.normalize(x, dim=-1) * (2 * size).clamp(max=1)


def shuffled_batch(sizes, seed):
    batch = torch.repeat_interleave(torch.tensor(sizes))
    gen = torch.Generator().manual_seed(seed)
    return batch[torch.randperm(batch.numel(), generator=gen)]


def slope(r, kernel):
    return 2 - r / 2 if kernel == 'simple' else 1 / (1 + math.exp(r / 2 - 1))


def penalty(r, kernel):
    if kernel == 'simple':
        return 2 * r - r * r / 4
    shift = 2 * math.log(1 + math.exp(-1))
    return r - 2 * math.log(1 + math.exp(r / 2 - 1)) + shift


def brute_force(x, kernel, batch=None):
    """Node penalties, degrees and S from loops over ordered pairs."""
    num = x.size(0)
    values = torch.zeros(num, dtype=torch.double)
    weight = torch.zeros(num, num, dtype=torch.double)
    for i in range(num):
        for j in range(num):
            if batch is None or batch[i] == batch[j]:
                r = (x[i] - x[j]).square().sum().item()
                values[i] += penalty(r, kernel)
                weight[i, j] = slope(r, kernel)
    degree = weight.sum(-1)
    return values, degree, weight / degree.unsqueeze(-1)


def close(found, expected, tol=1e-11):
    torch.testing.assert_close(found, expected, rtol=tol, atol=tol)


def test_two_nodes_by_hand():
    x = torch.tensor([[0.5], [-0.5]])  # r = 1, d = 2 + 1.5
    assert diffusion_energy(x).item() == 2 * 1.75
    assert diffusivity(x).flatten().tolist() == pytest.approx(
        [4 / 7, 3 / 7, 3 / 7, 4 / 7]
    )
    # S x = x / 7
    step = diffusion_step(x, 0.5)
    assert step.flatten().tolist() == pytest.approx([2 / 7, -2 / 7])
    assert max_stable_tau(x, strength=0.5).item() == pytest.approx(7 / 8)
    # 4 lambda f (x_i - x_j)
    grad = diffusion_energy_grad(x, strength=0.5)
    assert grad.flatten().tolist() == pytest.approx([3.0, -3.0])


@pytest.mark.parametrize('kernel', KERNELS)
def test_penalties_are_concave_with_the_diffusivity_as_slope(kernel):
    r = torch.linspace(0, 4, 400).double().requires_grad_()
    value = pair_penalty(r, kernel)
    (first,) = torch.autograd.grad(value.sum(), r, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), r)
    close(pair_diffusivity(r, kernel), first)
    assert value[0] == 0
    assert (first >= 0).all()
    assert (second <= 0).all()
    expected = [penalty(v, kernel) for v in r.tolist()]
    close(value.detach(), torch.tensor(expected, dtype=torch.double))


@pytest.mark.parametrize('kernel', KERNELS)
def test_on_unit_vectors_they_are_those_of_the_paper(kernel):
    u = F.normalize(ball(7, 4), dim=-1)
    inner = u @ u.mT
    weight = 1 + inner if kernel == 'simple' else inner.sigmoid()
    close(diffusivity(u, kernel), weight / weight.sum(-1, keepdim=True))


def test_the_bounded_penalty_of_far_and_of_near_states():
    r = torch.tensor([1e-6, 1e6, 1e30])
    found = pair_penalty(r, 'sigmoid')
    expected = [1e-6 / (1 + math.exp(-1))] + [2 * math.log(1 + math.e)] * 2
    torch.testing.assert_close(found, torch.tensor(expected))


@given(sizes, channels, kernels, seeds)
@settings(max_examples=25)
def test_sums_equal_loops_over_pairs(sizes, num_channels, kernel, seed):
    batch = shuffled_batch(sizes, seed)
    x = ball(batch.numel(), num_channels, seed)
    values, degree, s = brute_force(x, kernel, batch)
    groups = {'batch': batch, 'batch_size': len(sizes)}
    nodes = diffusion_energy(x, kernel=kernel, reduction='node', **groups)
    close(nodes, values)
    close(diffusivity(x, kernel, batch=batch), s)
    close(diffusion_step(x, 1.0, kernel, **groups), s @ x)
    close(diffusion_step(x, 0.3, kernel, **groups), 0.7 * x + 0.3 * (s @ x))
    tau = max_stable_tau(x, kernel, 0.01, reduction='node', **groups)
    close(tau, 0.04 * degree / (1 + 0.04 * degree))
    tau = max_stable_tau(x, kernel, 0.01, **groups)
    for b in range(len(sizes)):
        least = degree[batch == b].min() if sizes[b] else math.inf
        close(tau[b].item(), 1 / (1 + 25 / float(least)))


@given(sizes, channels, kernels, seeds)
@settings(max_examples=25)
def test_a_graph_in_a_batch_is_the_graph_alone(sizes, width, kernel, seed):
    batch = shuffled_batch(sizes, seed)
    x = ball(batch.numel(), width, seed)
    past = x + 0.1 * ball(batch.numel(), width, seed + 1)
    groups = {'batch': batch, 'batch_size': len(sizes)}
    args = (kernel, 0.3)
    energy = diffusion_energy(x, past, *args, **groups)
    grad = diffusion_energy_grad(x, past, *args, **groups)
    step = diffusion_step(x, 0.4, kernel, **groups)
    tau = max_stable_tau(x, *args, **groups)
    for b in range(len(sizes)):
        mine = batch == b
        one, old = x[mine], past[mine]
        close(energy[b], diffusion_energy(one, old, *args))
        close(grad[mine], diffusion_energy_grad(one, old, *args))
        close(step[mine], diffusion_step(one, 0.4, kernel))
        close(tau[b], max_stable_tau(one, *args))


@given(sizes, channels, kernels, st.booleans(), seeds)
@settings(max_examples=25)
def test_gradient_is_exact(sizes, width, kernel, on_edges, seed):
    batch = shuffled_batch(sizes, seed)
    num = batch.numel()
    x = ball(num, width, seed, radius=0.9).requires_grad_()
    past = ball(num, width, seed + 1)
    options = {'kernel': kernel, 'strength': 0.7, 'batch': batch}
    if on_edges and num > 0:
        options['edge_index'] = random_graph(num, 3 * num, seed).edge_index
    energy = diffusion_energy(x, past, **options)
    (expected,) = torch.autograd.grad(energy.sum(), x, materialize_grads=True)
    close(diffusion_energy_grad(x, past, **options), expected)


def test_gradient_of_large_states_and_of_steps():
    x = 10 * torch.randn(9, 3).double()
    x.requires_grad_()
    (expected,) = torch.autograd.grad(diffusion_energy(x, None, 'sigmoid'), x)
    close(diffusion_energy_grad(x, None, 'sigmoid'), expected)
    x = ball(9, 3, radius=0.9).requires_grad_()
    for kernel in KERNELS:
        for form in ({}, {'edge_index': random_graph(9, 20).edge_index}):
            assert torch.autograd.gradcheck(
                lambda x, k=kernel, f=form: diffusion_step(x, 0.3, k, **f), x
            )


def test_blocks_do_not_change_sums_or_gradients(monkeypatch):
    x = ball(70, 3, radius=0.9).requires_grad_()
    for batch in (None, shuffled_batch([37, 1, 13, 0, 19], seed=2)):
        runs = []
        for size in (2**18, 1):  # one block, or five
            monkeypatch.setattr(blocks, '_VALUES', size)
            options = {'kernel': 'sigmoid', 'batch': batch}
            energy = diffusion_energy(x, x.detach(), **options)
            (slope,) = torch.autograd.grad(energy.sum(), x)
            runs.append((energy, slope, diffusion_step(x, 0.5, **options)))
        for found, expected in zip(*runs, strict=True):
            close(found, expected)


@given(
    sizes, channels, kernels, st.sampled_from([1e-4, 1e-2, 1.0, 50.0]), seeds
)
@settings(max_examples=25)
def test_steps_within_the_bound_descend(sizes, width, kernel, strength, seed):
    batch = shuffled_batch(sizes, seed)
    x = ball(batch.numel(), width, seed)
    options = {
        'kernel': kernel,
        'strength': strength,
        'batch': batch,
        'batch_size': len(sizes),
    }
    for _ in range(3):
        tau = max_stable_tau(x, **options)
        node_tau = max_stable_tau(x, reduction='node', **options)
        assert (tau[batch] <= node_tau + 1e-15).all()
        for step in (tau[batch], 0.3 * tau[batch], node_tau):
            change = diffusion_change(x, step, **options)
            assert (change <= 1e-12).all()
        x = diffusion_step(x, node_tau, kernel, batch=batch)


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('seed', range(3))
def test_not_every_step_descends(kernel, seed):
    x = ball(100, 8, seed)
    weak = {'kernel': kernel, 'strength': 1e-4}
    assert diffusion_change(x, 0.5, **weak) > 0
    assert diffusion_change(x, 0.99, **weak) > 0
    assert diffusion_change(x, max_stable_tau(x, **weak), **weak) < 0
    assert diffusion_change(x, 0.5, kernel, strength=1e-2) < 0


@given(st.integers(1, 9), channels, kernels, seeds)
@settings(max_examples=25)
def test_edges_are_pairs(num_nodes, width, kernel, seed):
    """Symmetric lists: sums over in-edges; directed ones: half each way."""
    x = ball(num_nodes, width, seed)
    edges = random_graph(num_nodes, 2 * num_nodes, seed).edge_index
    count = torch.zeros(num_nodes, num_nodes, dtype=torch.double)
    for j, i in edges.t().tolist():
        count[i, j] += 0.5
        count[j, i] += 0.5
    r = torch.cdist(x, x).square()
    energy = diffusion_energy(x, x + 1, kernel, 0.3, edges)
    expected = width * num_nodes
    expected += 0.3 * (count * pair_penalty(r, kernel)).sum()
    close(energy, expected, 1e-10)
    weight = count * pair_diffusivity(r, kernel)
    degree = weight.sum(-1, keepdim=True)
    s = torch.where(degree > 0, weight / degree, torch.eye(num_nodes).double())
    close(diffusivity(x, kernel, edges), s)
    close(diffusion_step(x, 0.6, kernel, edges), 0.4 * x + 0.6 * s @ x)
    tau = max_stable_tau(x, kernel, 1e-2, edges, reduction='node')
    assert (diffusion_change(x, tau, kernel, 1e-2, edges) <= 1e-12).all()


def test_complete_graphs_are_all_pairs():
    x, batch = ball(7, 3), torch.tensor([0, 1, 0, 1, 1, 0, 0])
    edges = (batch == batch.unsqueeze(-1)).nonzero().t()
    for kernel in KERNELS:
        options = {'kernel': kernel, 'batch': batch}
        close(
            diffusion_energy(x, edge_index=edges, **options),
            diffusion_energy(x, **options),
        )
        close(
            max_stable_tau(x, edge_index=edges, **options),
            max_stable_tau(x, **options),
        )


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('shape', [(0, 3), (1, 3), (4, 0), (5, 3)])
def test_nothing_is_nan(kernel, shape):
    x = torch.zeros(shape)
    none = torch.empty(2, 0, dtype=torch.long)
    for edge_index in (None, none):
        options = {'kernel': kernel, 'edge_index': edge_index}
        assert diffusion_energy(x, x, **options) == 0
        assert not diffusion_energy_grad(x, x, **options).any()
        assert diffusion_step(x, 0.5, **options).equal(x)
        tau = max_stable_tau(x, **options)
        assert 0 < tau <= 1
        assert max_stable_tau(x, strength=0.0, **options) in (0, 1)
        rows = diffusivity(x, **options).sum(-1)
        torch.testing.assert_close(rows, torch.ones(shape[0]))
    empty = torch.zeros(shape[0], dtype=torch.long)
    energy = diffusion_energy(x, kernel=kernel, batch=empty, batch_size=3)
    assert energy.tolist() == [0, 0, 0]
    tau = max_stable_tau(x, kernel, batch=empty, batch_size=3)
    assert tau[1:].tolist() == [1, 1]


def test_states_far_from_zero_and_near_each_other():
    """Shifted to their mean, sums of tiny distances keep their digits."""
    gen = torch.Generator().manual_seed(0)
    spread = 1e-3 * torch.randn(500, 4, generator=gen)
    x = torch.tensor([0.9, 0.0, 0.0, 0.1]) + spread
    for kernel in KERNELS:
        exact = diffusion_energy(x.double(), kernel=kernel)
        found = diffusion_energy(x, kernel=kernel).double()
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=0)


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('dtype', [torch.half, torch.bfloat16])
def test_half_types_are_summed_in_float32(kernel, dtype):
    x = F.normalize(ball(300, 8), dim=-1).to(dtype)
    energy = diffusion_energy(x, kernel=kernel)
    assert energy.dtype == torch.float32
    values, _, _ = brute_force(x[:40].double(), kernel)
    found = diffusion_energy(x[:40], kernel=kernel)
    assert found.item() == pytest.approx(values.sum().item(), rel=1e-5)
    assert diffusion_step(x, 0.5, kernel).dtype == dtype
    assert diffusion_energy_grad(x, x, kernel).dtype == dtype
    tau = max_stable_tau(x, kernel, 1e-3)
    assert diffusion_change(x, tau, kernel, 1e-3) < 0


def test_the_linear_sum_makes_no_matrix_of_pairs():
    """40,000 nodes have 1.6e9 pairs, and the sum is one over blocks."""
    x = ball(40_000, 4)
    total = 0.0
    for rows in x[:400].split(100):
        r = torch.cdist(rows, x).square()
        total += (2 * r - r.square() / 4).sum().item()
    nodes = diffusion_energy(x, reduction='node')
    assert nodes[:400].sum().item() == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'kernel': 'softmax'}, "one of .* \\(got 'softmax'\\)"),
        ({'x': torch.full((3, 4), 2.0)}, 'unit ball .*norm of 4'),
        ({'x': torch.full((3, 4), torch.nan)}, 'norm of nan'),
        ({'x': torch.ones(3)}, r'state \[N, C\] \(got \[3\]'),
        ({'x': torch.ones(3, 4).long()}, 'floating-point'),
        ({'strength': -1.0}, r'>= 0 \(got -1.0\)'),
        ({'strength': math.nan}, r'>= 0 \(got nan\)'),
        ({'previous': torch.zeros(2, 4)}, r'\[3, 4\] \(got \[2, 4\]\)'),
        ({'batch': torch.zeros(2).long()}, r'every node, \[3\]'),
        ({'batch': torch.tensor([0, -1, 0])}, 'names graph -1'),
        (
            {'batch': torch.ones(3).long(), 'batch_size': 1},
            'names graph 1, but',
        ),
        ({'reduction': 'mean'}, "'graph' or 'node'"),
    ],
)
def test_wrong_input(change, message):
    given = {'x': torch.zeros(3, 4), **change}
    with pytest.raises(ValueError, match=message):
        diffusion_energy(**given)
    if 'previous' not in change:
        with pytest.raises(ValueError, match=message):
            max_stable_tau(**given)


@pytest.mark.parametrize(
    ('tau', 'message'),
    [
        (1.5, r'in \[0, 1\] \(got 1.5\)'),
        (-0.5, r'in \[0, 1\] \(got -0.5\)'),
        (math.nan, 'got nan'),
        (torch.tensor([0.1, 2.0, 0.1]), 'got 2.0'),
        (torch.tensor([0.1, 0.2]), r'tau\[batch\]'),
    ],
)
def test_wrong_step_size(tau, message):
    with pytest.raises(ValueError, match=message):
        diffusion_step(torch.zeros(3, 4), tau)
