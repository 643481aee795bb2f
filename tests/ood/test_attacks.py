import pytest
import torch
from torch.nn.functional import cross_entropy

from torch_energy_graph.ood.attacks import pgd_attack


def linear(seed=0):
    gen = torch.Generator().manual_seed(seed)
    weight = torch.randn(2, 6, generator=gen).double()
    x = torch.rand(5, 6, generator=gen).double()
    y = torch.randint(2, (5,), generator=gen)
    return weight, x, y


@pytest.mark.parametrize('norm', ['linf', 'l2'])
def test_a_linear_model_has_a_closed_form(norm):
    weight, x, y = linear()
    out = pgd_attack(
        lambda x: x @ weight.t(),
        x,
        y,
        0.3,
        norm,
        steps=60,
        step_size=0.3,  # a step halves the angle, at least
        bounds=None,
        generator=torch.Generator().manual_seed(0),
    )
    # the loss grows with the wrong logit minus the right one
    way = weight[1 - y] - weight[y]  # [B, F]
    if norm == 'linf':
        best = x + 0.3 * way.sign()
    else:
        best = x + 0.3 * way / way.norm(dim=1, keepdim=True)
    torch.testing.assert_close(out, best, rtol=0, atol=1e-6)


@pytest.mark.parametrize('norm', ['linf', 'l2'])
@pytest.mark.parametrize('shape', [(4, 7), (4, 1, 5, 5)])
def test_the_ball_and_the_bounds_hold(norm, shape):
    gen = torch.Generator().manual_seed(1)
    x, y = torch.rand(shape, generator=gen), torch.tensor([0, 1, 2, 0])
    weight = torch.randn(3, x[0].numel(), generator=gen)

    def predict(x):
        return x.flatten(1) @ weight.t()

    out = pgd_attack(predict, x, y, 0.1, norm, steps=5, generator=gen)
    order = 2 if norm == 'l2' else float('inf')
    distance = (out - x).flatten(1).norm(order, dim=1)
    assert distance.max() <= 0.1 + 1e-6
    assert out.min() >= 0
    assert out.max() <= 1
    assert not out.requires_grad
    before, after = (cross_entropy(predict(z), y) for z in (x, out))
    assert after > before


def test_radius_zero_and_seeds():
    weight, x, y = linear()
    torch.testing.assert_close(
        pgd_attack(lambda x: x @ weight.t(), x, y, 0.0, steps=3), x
    )

    def run(seed):
        gen = torch.Generator().manual_seed(seed)
        return pgd_attack(
            lambda x: (x @ weight.t()).sin(), x, y, 0.2, steps=2, generator=gen
        )

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))


def test_it_works_without_gradients_around_it():
    weight, x, y = linear()
    with torch.no_grad():
        out = pgd_attack(lambda x: x @ weight.t(), x, y, 0.2, steps=2)
    assert not torch.equal(out, x)


@pytest.mark.parametrize(
    'kwargs', [{'norm': 'l1'}, {'epsilon': -1.0}, {'steps': 0}]
)
def test_bad_arguments(kwargs):
    weight, x, y = linear()
    args = {'epsilon': 0.1, **kwargs}
    with pytest.raises(ValueError, match="'pgd_attack' expects norm"):
        pgd_attack(lambda x: x @ weight.t(), x, y, **args)
