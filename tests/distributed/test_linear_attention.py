import pytest
import torch

from torch_energy_graph.distributed import sharded_linear_attention
from torch_energy_graph.ops.linear_attention import linear_attention

# nodes of every rank
SIZES = {2: [3, 8], 3: [5, 0, 6]}
NORMALIZE = ['node', 'global']


def heads_of(num_nodes, value_heads, seed=0):
    gen = torch.Generator().manual_seed(seed)
    shapes = [(2, 3), (2, 3), (value_heads, 4)]
    return [
        torch.randn(num_nodes, *shape, generator=gen).double()
        for shape in shapes
    ]


def penalty_of(out, inputs, weight):
    """First gradients of a loss, and a penalty on them."""
    loss = (out.pow(3) * weight).sum()
    grads = torch.autograd.grad(loss, inputs, create_graph=True)
    return grads, sum(grad.square().sum() for grad in grads)


def equals_one_process(rank, world_size, normalize, value_heads):
    whole = [t.requires_grad_() for t in heads_of(11, value_heads)]
    weight = torch.arange(1, 12)[:, None, None]
    expected = linear_attention(*whole, normalize=normalize)
    grads, penalty = penalty_of(expected, whole, weight)
    second = torch.autograd.grad(penalty, whole)

    def mine(tensor):
        return tensor.split(SIZES[world_size])[rank]

    part = [mine(t).detach().requires_grad_() for t in whole]
    out = sharded_linear_attention(*part, normalize=normalize)
    close = {'rtol': 0, 'atol': 1e-10}
    torch.testing.assert_close(out, mine(expected), **close)
    ours, penalty = penalty_of(out, part, mine(weight))
    for grad, other in zip(ours, grads, strict=True):
        torch.testing.assert_close(grad, mine(other), **close)
    ours = torch.autograd.grad(penalty, part)
    for grad, other in zip(ours, second, strict=True):
        torch.testing.assert_close(grad, mine(other), **close)


def half_types(rank, world_size, normalize):
    whole = heads_of(400, 1)
    whole[2] += 100  # 16-bit sums of 400 such nodes are wrong
    # half the distance of neighbouring 16-bit numbers at 100
    for dtype, atol in ((torch.bfloat16, 0.26), (torch.float16, 0.033)):
        parts = [t.to(dtype).tensor_split(world_size) for t in whole]
        exact = [torch.cat(t).double().requires_grad_() for t in parts]
        expected = linear_attention(*exact, normalize=normalize)
        grads = torch.autograd.grad(expected.sin().sum(), exact)
        part = [t[rank].detach().requires_grad_() for t in parts]
        out = sharded_linear_attention(*part, normalize=normalize)
        assert out.dtype == dtype
        expected = expected.tensor_split(world_size)[rank]
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=atol)
        # the cotangent is that of the exact outputs
        grad_out = expected.detach().cos().to(dtype)
        ours = torch.autograd.grad(out, part, grad_out)
        for grad, other in zip(ours, grads, strict=True):
            other = other.tensor_split(world_size)[rank]
            error = (grad.double() - other).norm() / other.norm()
            assert error < 2e-2


def nothing_is_nan(rank, world_size, normalize):
    empty = [t[:0].requires_grad_() for t in heads_of(1, 2)]
    assert sharded_linear_attention(*empty, normalize).shape == (0, 2, 4)
    zeros = [torch.zeros(3, 2, 3, requires_grad=True) for _ in range(3)]
    out = sharded_linear_attention(*zeros, normalize)
    out.sum().backward()
    assert out.eq(0).all()
    assert all(t.grad.isfinite().all() for t in zeros)
    # one node on one rank, its key opposite to its query
    size = int(rank == world_size - 1)
    q = torch.ones(size, 1, 3)
    v = torch.arange(3.0).view(1, 1, 3)[:size]
    out = sharded_linear_attention(q, -q, v, normalize)
    assert out.flatten().tolist() == v.flatten().tolist()


@pytest.mark.parametrize('value_heads', [1, 2])
@pytest.mark.parametrize('normalize', NORMALIZE)
@pytest.mark.parametrize('world_size', [2, 3])
def test_equals_one_process(ranks, world_size, normalize, value_heads):
    ranks.run(world_size, equals_one_process, normalize, value_heads)


@pytest.mark.parametrize('normalize', NORMALIZE)
@pytest.mark.parametrize('check', [half_types, nothing_is_nan])
def test_hard_cases(ranks, check, normalize):
    ranks.run(2, check, normalize)


def test_shapes_are_checked():
    q = torch.ones(3, 2, 4)
    with pytest.raises(ValueError, match='expects q and k of shape'):
        sharded_linear_attention(q, q[:2], q)
    with pytest.raises(ValueError, match="'node' or 'global'"):
        sharded_linear_attention(q, q, q, normalize='batch')
