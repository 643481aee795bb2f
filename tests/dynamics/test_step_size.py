import math

import pytest
import torch

from torch_energy_graph.dynamics import attention_curvature, safe_step_size
from torch_energy_graph.nn import EnergyTransformerConv
from torch_energy_graph.testing import (
    hub_graph,
    in_star,
    out_star,
    random_graph,
)


def test_formula_by_hand():
    sigma = torch.tensor([2.0, 2.0, 2.0])
    curvature = torch.tensor([4.0, 0.0, 0.0])
    grad = torch.tensor([[0.0] * 4, [3.0, 0.0, 0.0, 4.0], [0.0] * 4])
    step = safe_step_size(sigma, 0.5, curvature, grad)
    # 2 * 2 / (0.5 * 4), 2 * 2 / (2 * 5 / 2), nothing to move
    torch.testing.assert_close(step, torch.tensor([2.0, 0.8, 0.0]))


def test_vanishing_denominators_do_not_overflow():
    step = safe_step_size(
        torch.ones(1), 1.0, torch.zeros(1), torch.full((1, 4), 1e-38)
    )
    assert step.isfinite().all()


@pytest.mark.parametrize('shape', [(2, 3, 8), (3, 8, 4), (1, 4, 4)])
def test_curvature_uses_the_spectral_norm(shape):
    w_q = torch.randn(shape, dtype=torch.double)
    w_k = torch.randn(shape, dtype=torch.double)
    norm = sum(
        torch.linalg.matrix_norm(k.t() @ q, ord=2)
        for q, k in zip(w_q, w_k, strict=True)
    )
    found = attention_curvature(
        w_q, w_k, torch.tensor([0, 3, 1]), torch.tensor([2, 0, 5])
    )
    torch.testing.assert_close(found, norm * torch.tensor([2, 1, 6]))


def test_curvature_of_relations_adds_up():
    w_q, w_k = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 4)
    lifted_in = torch.tensor([1, 0, 0, 2])  # two nodes, two relations
    lifted_out = torch.tensor([0, 3, 1, 0])
    found = attention_curvature(w_q, w_k, lifted_in, lifted_out)
    each = [
        attention_curvature(w_q[r], w_k[r], lifted_in[r::2], lifted_out[r::2])
        for r in range(2)
    ]
    torch.testing.assert_close(found, each[0] + each[1])


GRAPHS = [
    lambda seed: random_graph(12, 50, seed, num_isolated=1),
    lambda seed: random_graph(5, 60, seed),
    lambda seed: in_star(15),
    lambda seed: out_star(15),
    lambda seed: hub_graph(14, 10, seed),
]


def descend(graph, seed, step_size, scale):
    torch.manual_seed(seed)
    layer = EnergyTransformerConv(
        8,
        heads=2,
        num_memories=6,
        num_steps=15,
        step_size=step_size,
        activation=['relu', 'softmax', 'power'][seed % 3],
    ).double()
    std = math.exp(torch.empty(()).uniform_(math.log(0.05), math.log(3.0)))
    for name, parameter in layer.named_parameters():
        if 'norm' not in name:
            torch.nn.init.normal_(parameter, std=scale * std)
    x = torch.randn(graph.num_nodes, 8, dtype=torch.double)
    x[0] = 1.0  # a constant node, where the norm is steepest
    _, trace = layer(x, graph.edge_index, return_trace=True)
    return trace


@pytest.mark.parametrize('kind', range(len(GRAPHS)))
def test_the_certified_step_never_raises_the_energy(kind):
    for seed in range(40):  # 200 graphs x weights in all
        trace = descend(GRAPHS[kind](seed), seed, 'auto', 1.0)
        assert trace.is_monotone(tol=1e-10), (kind, seed, trace.energy)
        assert trace.energy[-1] < trace.energy[0]
        assert trace.step_size.shape[0] == 15
        assert (trace.step_size > 0).any()


def test_a_large_fixed_step_does_raise_it():
    """The property above would not hold for any step."""
    rises = sum(
        not descend(GRAPHS[3](seed), seed, 100.0, 1.0).is_monotone(1e-10)
        for seed in range(30)
    )
    assert rises > 0
