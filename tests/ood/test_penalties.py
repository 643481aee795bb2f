import numpy as np
import pytest
import torch

from torch_energy_graph.energies.classifier import free_energy
from torch_energy_graph.ood import EnergyMarginLoss, EnergyVarianceLoss


def test_variance_equals_numpy():
    torch.manual_seed(0)
    logits = torch.randn(6, 3).double()
    mask = torch.tensor([1, 0, 1, 1, 0, 1]).bool()
    for multi_label in (False, True):
        energy = free_energy(logits, multi_label=multi_label).numpy()
        loss_fn = EnergyVarianceLoss(multi_label)
        out = float(loss_fn(logits))
        assert out == pytest.approx(np.var(energy), abs=1e-12)
        out = float(loss_fn(logits, mask))
        assert out == pytest.approx(np.var(energy[mask.numpy()]), abs=1e-12)


def test_variance_of_one_row_is_zero_with_its_gradient():
    logits = torch.randn(1, 3, requires_grad=True)
    loss = EnergyVarianceLoss()(logits)
    (grad,) = torch.autograd.grad(loss, logits)
    assert loss == 0
    assert not grad.any()
    with pytest.raises(ValueError, match='no rows'):
        EnergyVarianceLoss()(logits, torch.tensor([False]))


def test_margins_by_hand():
    loss_fn = EnergyMarginLoss(m_in=-5.0, m_out=-1.0)
    energy_in = torch.tensor([-6.0, -4.0, -2.0], requires_grad=True)
    energy_out = torch.tensor([-3.0, 0.0], requires_grad=True)
    loss = loss_fn(energy_in, energy_out)
    assert loss.item() == pytest.approx((0 + 1 + 9) / 3 + (4 + 0) / 2)
    loss.backward()
    # known inputs are pulled down, others up, and those beyond stay
    assert energy_in.grad.tolist() == pytest.approx([0, 2 / 3, 2])
    assert energy_out.grad.tolist() == pytest.approx([-2, 0])


def test_bad_margins_and_empty_sets():
    with pytest.raises(ValueError, match='m_in < m_out'):
        EnergyMarginLoss(m_in=-1.0, m_out=-5.0)
    loss_fn = EnergyMarginLoss(-5.0, -1.0)
    with pytest.raises(ValueError, match=r'got 2 known and 0 others'):
        loss_fn(torch.zeros(2), torch.zeros(0))
