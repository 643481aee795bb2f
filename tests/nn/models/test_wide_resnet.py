import pytest
import torch

from torch_energy_graph.nn.models.wide_resnet import WideResNet


def test_number_of_parameters_by_hand():
    def conv(a, b, k):
        return a * b * k * k + b

    model = WideResNet(3, 10)
    expected = conv(3, 16, 3) + 64 * 10 + 10
    for a, b in ((16, 16), (16, 32), (32, 64)):
        expected += conv(a, b, 3) + conv(b, b, 3)
        expected += conv(a, b, 1) if a != b else 0
    assert sum(p.numel() for p in model.parameters()) == expected
    assert len(WideResNet(3, 10, depth=28, width=2).blocks) == 12


@pytest.mark.parametrize('side', [4, 8, 28, 32])
@pytest.mark.parametrize('width', [1, 2])
def test_shapes(side, width):
    model = WideResNet(1, 5, width=width)
    x = torch.rand(2, 1, side, side)
    assert model.embed(x).shape == (2, 64 * width)
    assert model.blocks(model.stem(x)).shape[2:] == (side // 4, side // 4)
    out = model(x)
    assert out.shape == (2, 5)
    torch.testing.assert_close(out, model.head(model.embed(x)))


def test_an_image_alone_is_the_image_in_a_batch():
    model, x = WideResNet(3, 4).double(), torch.rand(3, 3, 8, 8).double()
    single = torch.cat([model(image[None]) for image in x])
    torch.testing.assert_close(model.train()(x), single)


def test_a_block_is_its_formula():
    block = WideResNet(1, 2).double().blocks[1]
    x = torch.randn(2, 16, 8, 8).double()

    def act(x):
        return torch.where(x > 0, x, 0.2 * x)

    out = block.conv2(act(block.conv1(act(x)))) + block.shortcut(x)
    torch.testing.assert_close(block(x), out)


def test_second_derivative_of_the_gradient_norm():
    model = WideResNet(1, 3).double()
    x = torch.rand(2, 1, 4, 4).double().requires_grad_()

    def penalty(weight):
        out = torch.func.functional_call(model, {'head.weight': weight}, x)
        (grad,) = torch.autograd.grad(
            out.logsumexp(1).sum(), x, create_graph=True
        )
        return grad.square().sum()

    weight = model.head.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(penalty, weight)


@pytest.mark.parametrize('kwargs', [{'depth': 12}, {'depth': 4}, {'width': 0}])
def test_bad_sizes(kwargs):
    with pytest.raises(ValueError, match='depth of 10, 16, 22'):
        WideResNet(1, 2, **kwargs)
