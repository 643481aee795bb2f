import math

import pytest
import torch

from torch_energy_graph.losses import (
    class_balance,
    weighted_bce_with_logits,
)


def test_by_hand():
    logits = torch.tensor([0, 0, math.log(3)], dtype=torch.double)
    y = torch.tensor([1, 0, 0])
    # omega = 2; p = 1/2, 1/2, 3/4
    expected = (2 * math.log(2) + math.log(2) + math.log(4)) / 3
    out = weighted_bce_with_logits(logits, y)
    assert out.item() == pytest.approx(expected, abs=1e-12)


def test_class_balance_is_benign_over_anomalous():
    assert class_balance(torch.tensor([0, 1, 0, 0, 0, 1])) == 2.0


def test_both_classes_pull_equally():
    y = torch.tensor([0] * 98 + [1] * 2)
    logits = torch.zeros(100, requires_grad=True)
    weighted_bce_with_logits(logits, y).backward()
    assert logits.grad[:98].sum().item() == pytest.approx(
        -logits.grad[98:].sum().item(), rel=1e-5
    )


@pytest.mark.parametrize('weight', [3.0, torch.tensor(3.0)])
def test_given_weight_allows_a_batch_of_one_class(weight):
    out = weighted_bce_with_logits(
        torch.zeros(4), torch.ones(4).long(), weight
    )
    assert out.item() == pytest.approx(3 * math.log(2))


def test_gradcheck():
    logits = torch.randn(5).double().requires_grad_()
    y = torch.tensor([0, 1, 0, 0, 1])
    assert torch.autograd.gradcheck(
        lambda z: weighted_bce_with_logits(z, y), logits
    )


@pytest.mark.parametrize('value', [0, 1])
def test_missing_class_is_an_error(value):
    with pytest.raises(ValueError, match='both classes'):
        weighted_bce_with_logits(torch.zeros(3), torch.full((3,), value))


@pytest.mark.parametrize(
    ('logits', 'y', 'weight', 'match'),
    [
        (torch.zeros(3, 1), torch.tensor([0, 1, 0]), None, 'squeeze'),
        (torch.zeros(3), torch.tensor([0, 1, -1]), None, r'\[-1\] at 1 nodes'),
        (torch.zeros(2), torch.tensor([0, 1]), 0.0, 'pos_weight'),
    ],
)
def test_bad_input(logits, y, weight, match):
    with pytest.raises(ValueError, match=match):
        weighted_bce_with_logits(logits, y, weight)
