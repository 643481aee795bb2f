import pytest
import torch
from torch.autograd.functional import jacobian

from torch_energy_graph.nn import EnergyLayerNorm


def norm_and_state(channels=6, seed=0):
    torch.manual_seed(seed)
    norm = EnergyLayerNorm(channels).double()
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    return norm, torch.randn(channels, dtype=torch.double)


def test_equals_layer_norm_with_one_gamma():
    norm, x = norm_and_state()
    expected = torch.nn.functional.layer_norm(
        x, (6,), norm.gamma.expand(6), norm.bias, norm.eps
    )
    torch.testing.assert_close(norm(x), expected, rtol=1e-12, atol=1e-12)


def test_it_is_the_gradient_of_its_lagrangian():
    norm, x = norm_and_state()
    x.requires_grad_()
    expected = torch.autograd.grad(norm.lagrangian(x), x)[0]
    torch.testing.assert_close(norm(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('seed', range(5))
def test_its_jacobian_is_symmetric_and_positive_semi_definite(seed):
    norm, x = norm_and_state(seed=seed)
    j = jacobian(norm, x)
    torch.testing.assert_close(j, j.t(), rtol=0, atol=1e-12)
    sigma, u = norm.sigma(x), x - x.mean()
    expected = (
        torch.eye(6).double() - 1 / 6 - torch.outer(u, u) / (6 * sigma**2)
    )
    torch.testing.assert_close(j, norm.gamma / sigma * expected)
    values = torch.linalg.eigvalsh(j)
    assert values.min() > -1e-12
    assert values.max() <= norm.gamma / sigma + 1e-12


def test_gamma_stays_positive():
    norm = EnergyLayerNorm(4)
    assert norm.gamma.item() == pytest.approx(1.0)
    with torch.no_grad():
        norm.weight.fill_(-20.0)
    assert norm.gamma.item() > 0


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_constant_tokens_survive_half_types(dtype):
    norm = EnergyLayerNorm(4).to(dtype)
    x = torch.ones(1, 4, dtype=dtype, requires_grad=True)
    norm(x).pow(3).sum().backward()
    assert norm(x).dtype == dtype
    assert x.grad.isfinite().all()


def test_wrong_arguments():
    with pytest.raises(ValueError, match='channels >= 1'):
        EnergyLayerNorm(0)
    with pytest.raises(ValueError, match='eps > 0'):
        EnergyLayerNorm(4, eps=0.0)
    with pytest.raises(ValueError, match=r'4 channels \(got .*\[2, 3\]'):
        EnergyLayerNorm(4)(torch.ones(2, 3))
