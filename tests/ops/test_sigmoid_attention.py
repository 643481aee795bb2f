"""DIFFormer-a in blocks against all pairs at once."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_energy_graph.ops import (
    sigmoid_attention,
    sigmoid_attention_weights,
)

# compiled layers are checked elsewhere: that check is slow
opcheck = partial(
    torch.library.opcheck,
    test_utils=[
        'test_schema',
        'test_autograd_registration',
        'test_faketensor',
    ],
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr('torch_energy_graph.ops.sigmoid._BLOCK', 8)


def inputs(num_nodes, heads=2, width=3, seed=0):
    gen = torch.Generator().manual_seed(seed)
    shape = 3, num_nodes, heads, width
    out = torch.randn(shape, generator=gen, dtype=torch.double)
    return [t.requires_grad_() for t in out.unbind()]


def all_pairs(q, k, v):
    weights = torch.einsum('ihd,jhd->ijh', q, k).sigmoid()
    weights = weights / weights.sum(1, keepdim=True)
    return torch.einsum('ijh,jhe->ihe', weights, v.expand(-1, q.size(1), -1))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('num_nodes', [1, 8, 30])
def test_equals_all_pairs(num_nodes):
    leaves = inputs(num_nodes)
    out, expected = sigmoid_attention(*leaves), all_pairs(*leaves)
    close(out, expected)
    cotangent = torch.randn(out.shape, dtype=torch.double)
    grads = torch.autograd.grad(out, leaves, cotangent)
    right = torch.autograd.grad(expected, leaves, cotangent)
    for grad, other in zip(grads, right, strict=True):
        close(grad, other)


@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
@settings(max_examples=20)
def test_a_graph_alone_equals_the_graph_in_a_batch(sizes, seed):
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    gen = torch.Generator().manual_seed(seed)
    batch = batch[torch.randperm(batch.numel(), generator=gen)]
    q, k, v = inputs(batch.numel(), seed=seed)
    out = sigmoid_attention(q, k, v[:, :1], batch, batch_size=len(sizes))
    (grad,) = torch.autograd.grad(out.square().sum(), q)
    for graph in range(len(sizes)):
        nodes = batch == graph
        alone = all_pairs(q[nodes], k[nodes], v[nodes, :1])
        close(out[nodes], alone)
        (expected,) = torch.autograd.grad(alone.square().sum(), q)
        close(grad[nodes], expected[nodes])


@pytest.mark.parametrize('batch', [None, torch.tensor([0, 1, 0, 2, 1])])
def test_second_derivatives(batch):
    def form(q, k, v):
        return sigmoid_attention(q, k, v, batch)

    torch.autograd.gradcheck(form, inputs(5))
    torch.autograd.gradgradcheck(form, inputs(5))


def test_weights():
    q, k, v = inputs(8)
    batch = torch.tensor([0, 1, 0, 2, 1, 1, 0, 1])
    weights = sigmoid_attention_weights(q, k, batch)
    close(weights.sum(1), torch.ones(8, 2, dtype=torch.double))
    assert (weights[batch[:, None] != batch] == 0).all()
    out = torch.einsum('ijh,jhe->ihe', weights, v)
    close(out, sigmoid_attention(q, k, v, batch))


@pytest.mark.parametrize('shift', [-200.0, 0.0, 200.0])
def test_logits_of_any_size(shift):
    # far below zero all sigmoids of a row are 0 in float32
    q = torch.full((20, 1, 1), shift, requires_grad=True)
    k = (1 + torch.rand(20, 1, 1)).requires_grad_()
    v = torch.randn(20, 1, 1)
    out = sigmoid_attention(q, k, v)
    logits = (q[:, 0] * k[:, 0].t()).double()
    # weights are proportional to sigmoids, that is, to exp(log sigmoid)
    weights = torch.nn.functional.logsigmoid(logits).softmax(-1)
    expected = (weights @ v[:, 0].double()).float()
    torch.testing.assert_close(out[:, 0], expected, rtol=1e-4, atol=1e-5)
    for grad in torch.autograd.grad(out.sum(), (q, k)):
        assert grad.isfinite().all()


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(dtype):
    q, k, v = (t.detach().to(dtype) for t in inputs(50))
    out = sigmoid_attention(q, k, v)
    exact = all_pairs(q.double(), k.double(), v.double())
    assert out.dtype == dtype
    eps = torch.finfo(dtype).eps
    assert (out - exact).abs().max() <= eps * exact.abs().max()


def test_no_nodes():
    q, k, v = torch.zeros(3, 0, 2, 3, requires_grad=True)
    batch = torch.zeros(0, dtype=torch.long)
    for given_batch in (None, batch):
        out = sigmoid_attention(q, k, v, given_batch)
        assert out.shape == (0, 2, 3)
        out.sum().backward()
    assert sigmoid_attention_weights(q, k).shape == (0, 0, 2)


def test_operator_is_registered_right():
    q, k, v = (t.detach().float().transpose(0, 1) for t in inputs(9))
    args = [t.contiguous().requires_grad_() for t in (q, k, v)]
    op = torch.ops.torch_energy_graph.sigmoid_attention
    opcheck(op, (*args, None))
    opcheck(op, (*args, torch.arange(9) // 4))


def test_wrong_shapes():
    q, k, v = inputs(4)
    with pytest.raises(ValueError, match=r'q and k of shape \[N, H, D\]'):
        sigmoid_attention(q, k, v[:2])
