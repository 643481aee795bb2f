import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_energy_graph.energies.classifier import (
    free_energy,
    free_energy_grad,
)


def draw(num_rows=6, num_classes=4, seed=0):
    gen = torch.Generator().manual_seed(seed)
    size = (num_rows, num_classes)
    return 3 * torch.randn(size, generator=gen, dtype=torch.double)


def test_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)], [2.0, 2.0]])
    out = free_energy(logits)
    expected = torch.tensor([-math.log(4.0), -2 - math.log(2.0)])
    torch.testing.assert_close(out, expected)
    out = free_energy(logits[:1], multi_label=True)  # log 2 + log 4
    torch.testing.assert_close(out, torch.tensor([-math.log(8.0)]))


@pytest.mark.parametrize('temperature', [0.5, 1.0, 3.0])
@pytest.mark.parametrize('multi_label', [False, True])
def test_is_the_sum_over_all_answers(temperature, multi_label):
    logits = draw()
    for row, energy in zip(
        logits, free_energy(logits, temperature, multi_label), strict=True
    ):
        values = [math.exp(value / temperature) for value in row.tolist()]
        mass = (
            math.prod(1 + value for value in values)
            if multi_label
            else sum(values)
        )
        expected = -temperature * math.log(mass)
        assert energy.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('multi_label', [False, True])
def test_gradient_is_exact(multi_label):
    hidden = draw(6, 3).requires_grad_()
    weight, bias = draw(4, 3, seed=1), draw(1, 4, seed=2)
    logits = hidden @ weight.t() + bias
    energy = free_energy(logits, 2.0, multi_label).sum()
    by_logits, by_input = torch.autograd.grad(energy, (logits, hidden))
    out = free_energy_grad(logits, 2.0, multi_label)
    torch.testing.assert_close(out, by_logits, rtol=0, atol=1e-12)
    out = free_energy_grad(logits, 2.0, multi_label, weight)
    torch.testing.assert_close(out, by_input, rtol=0, atol=1e-12)


@settings(max_examples=20)
@given(st.floats(-50, 50), st.integers(0, 100))
def test_a_constant_moves_the_energy_and_no_probability(shift, seed):
    logits = draw(seed=seed)
    moved = logits + shift
    torch.testing.assert_close(moved.softmax(-1), logits.softmax(-1))
    torch.testing.assert_close(
        free_energy(moved), free_energy(logits) - shift, rtol=0, atol=1e-9
    )


def test_huge_logits_and_half_types():
    logits = torch.tensor([[1e4, -1e4], [-1e4, -2e4]])
    for multi_label, expected in ((False, [-1e4, 1e4]), (True, [-1e4, 0.0])):
        out = free_energy(logits, multi_label=multi_label)
        assert out.tolist() == expected
    out = free_energy(draw().bfloat16())
    assert out.dtype == torch.float32
    torch.testing.assert_close(
        out.double(), free_energy(draw()), rtol=2e-2, atol=0
    )


def test_bad_inputs():
    with pytest.raises(ValueError, match=r'unsqueeze\(-1\)'):
        free_energy(torch.zeros(3))
    with pytest.raises(ValueError, match=r'K >= 1 \(got \[3, 0\]'):
        free_energy(torch.zeros(3, 0))
    with pytest.raises(ValueError, match="'temperature' > 0"):
        free_energy(torch.zeros(3, 2), 0.0)
    with pytest.raises(ValueError, match=r'\[2, C\] .*got \[3, 2\]'):
        free_energy_grad(torch.zeros(1, 2), weight=torch.zeros(3, 2))
