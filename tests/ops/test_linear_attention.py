"""DIFFormer-s: direct form, Gram form and unit form against all pairs."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_energy_graph.ops import (
    gram_attention,
    linear_attention,
    linear_attention_weights,
    unit_attention,
)
from torch_energy_graph.ops.ragged import cut

# compiled layers are checked elsewhere: that check is slow
opcheck = partial(
    torch.library.opcheck,
    test_utils=[
        'test_schema',
        'test_autograd_registration',
        'test_faketensor',
    ],
)

FAST = {'global': gram_attention, 'node': unit_attention}
NORMS = ['global', 'node']


def all_pairs(q, k, v, normalize):
    """The formula of the paper (or of the released code) on one graph."""
    dim = None if normalize == 'global' else -1
    q = q / torch.linalg.vector_norm(q, dim=dim, keepdim=True)
    k = k / torch.linalg.vector_norm(k, dim=dim, keepdim=True)
    weights = 1 + torch.einsum('ihd,jhd->ijh', q, k)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.einsum('ijh,jhe->ihe', weights, v.expand(-1, q.size(1), -1))


def inputs(num_nodes, heads=3, width=4, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(
        3, num_nodes, heads, width, generator=gen, dtype=torch.double
    )


def maps(heads, channels, width, seed=0, value=True, dtype=torch.double):
    """Weights and biases of queries, keys and values."""
    gen = torch.Generator().manual_seed(seed)
    out = []
    for _ in 'qkv':
        for shape in ((heads, width, channels), (heads, width)):
            tensor = torch.randn(shape, generator=gen, dtype=torch.double)
            out.append(tensor.to(dtype).requires_grad_())
    return out if value else [*out[:4], None, None]


def direct(x, w_q, b_q, w_k, b_k, w_v, b_v, normalize):
    q, k, v = (
        x.unsqueeze(1)
        if weight is None
        else torch.einsum('nc,hdc->nhd', x, weight) + bias
        for weight, bias in ((w_q, b_q), (w_k, b_k), (w_v, b_v))
    )
    return linear_attention(q, k, v, normalize=normalize).mean(1)


def close(actual, expected, tol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=tol, atol=tol)


@pytest.mark.parametrize('normalize', NORMS)
@pytest.mark.parametrize('num_nodes', [1, 2, 7, 300])
def test_equals_all_pairs(normalize, num_nodes):
    q, k, v = inputs(num_nodes)
    out = linear_attention(q, k, v, normalize=normalize)
    close(out, all_pairs(q, k, v, normalize))
    shared = v[:, :1]  # one value for all heads
    out = linear_attention(q, k, shared, normalize=normalize)
    close(out, all_pairs(q, k, shared, normalize))


@pytest.mark.parametrize('normalize', NORMS)
@given(
    sizes=st.lists(st.integers(0, 150), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_a_graph_alone_equals_the_graph_in_a_batch(normalize, sizes, seed):
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    gen = torch.Generator().manual_seed(seed)
    batch = batch[torch.randperm(batch.numel(), generator=gen)]
    q, k, v = inputs(batch.numel(), heads=2, width=3, seed=seed)
    out = linear_attention(
        q, k, v, batch, batch_size=len(sizes), normalize=normalize
    )
    assert out.isfinite().all()
    for graph in range(len(sizes)):
        nodes = batch == graph
        if nodes.any():
            alone = all_pairs(q[nodes], k[nodes], v[nodes], normalize)
            close(out[nodes], alone)


@pytest.mark.parametrize('normalize', NORMS)
def test_pointers_name_the_same_graphs(normalize):
    q, k, v = inputs(9)
    ptr = torch.tensor([0, 4, 4, 5, 9])
    batch = torch.tensor([0, 0, 0, 0, 2, 3, 3, 3, 3])
    out = linear_attention(q, k, v, ptr=ptr, normalize=normalize)
    close(out, linear_attention(q, k, v, batch, normalize=normalize))


def test_tiles_hold_every_node_once():
    batch = torch.tensor([1] * 130 + [3] * 64 + [0] * 65 + [1])
    tiles = cut(batch, 5)
    assert tiles.count.tolist() == [65, 131, 0, 64, 0]
    assert tiles.slot.unique().numel() == 260
    nodes = torch.arange(260)
    assert torch.equal(tiles.unpack(tiles.pack(nodes)), nodes)
    # no tile is shared by two graphs
    owner = tiles.graph[tiles.slot // 64]
    assert torch.equal(owner, batch)
    assert tiles.graph.numel() == 260 // 64 + 5


@pytest.mark.parametrize('normalize', NORMS)
def test_weights(normalize):
    q, k, v = inputs(8)
    batch = torch.tensor([0, 1, 0, 2, 1, 1, 0, 1])
    weights = linear_attention_weights(q, k, batch, normalize=normalize)
    close(weights.sum(1), torch.ones(8, 3, dtype=torch.double))
    apart = batch[:, None] != batch
    assert (weights[apart] == 0).all()
    out = torch.einsum('ijh,jhe->ihe', weights, v)
    close(out, linear_attention(q, k, v, batch, normalize=normalize))


@pytest.mark.parametrize('normalize', NORMS)
@pytest.mark.parametrize('value', [True, False])
@pytest.mark.parametrize(('num_nodes', 'heads'), [(1, 1), (2, 3), (900, 2)])
def test_fast_form_equals_direct_form(normalize, value, num_nodes, heads):
    gen = torch.Generator().manual_seed(1)
    x = torch.randn(num_nodes, 5, generator=gen, dtype=torch.double)
    x.requires_grad_()
    tensors = maps(heads, 5, 5, value=value)
    out = FAST[normalize](x, *tensors)
    expected = direct(x, *tensors, normalize)
    close(out, expected)
    wanted = [x, *(t for t in tensors if t is not None)]
    cotangent = torch.randn(out.shape, generator=gen, dtype=torch.double)
    grads = torch.autograd.grad(out, wanted, cotangent)
    right = torch.autograd.grad(expected, wanted, cotangent)
    for grad, other in zip(grads, right, strict=True):
        close(grad, other)


@pytest.mark.parametrize('normalize', NORMS)
def test_second_derivatives(normalize):
    gen = torch.Generator().manual_seed(2)
    x = torch.randn(5, 3, generator=gen, dtype=torch.double)
    tensors = [x.requires_grad_(), *maps(2, 3, 2)]
    torch.autograd.gradcheck(FAST[normalize], tensors)
    torch.autograd.gradgradcheck(FAST[normalize], tensors)


@pytest.mark.parametrize('normalize', NORMS)
def test_operators_are_registered_right(normalize):
    x = torch.randn(6, 3, requires_grad=True)
    w, b = torch.randn(2, 4, 3), torch.randn(2, 4)
    ops = torch.ops.torch_energy_graph
    if normalize == 'global':
        opcheck(ops.scatter_moments, (x,))
        a, a0 = torch.randn(2, 3, 4), torch.randn(2, 4)
        slopes = torch.randn(2, 3) / 9, torch.ones(2)
        args = (x, a, a0, *slopes, torch.randn(4))
        opcheck(ops.readout, args)
    else:
        opcheck(ops.unit_moments, (x, w, b))
        args = (x, w, b, torch.randn(2, 4, 5), b / 9, torch.randn(5))
        opcheck(ops.unit_readout, args)


def errors_in_float32(form, x, tensors, cotangent):
    """Largest relative error of output and gradients against float64."""

    def evaluate(dtype):
        leaves = [t.detach().to(dtype).requires_grad_() for t in (x, *tensors)]
        out = form(*leaves)
        grads = torch.autograd.grad(out, leaves, cotangent.to(dtype))
        return [out.detach(), *grads]

    return [
        float((a.double() - b).abs().max() / b.abs().max())
        for a, b in zip(
            evaluate(torch.float), evaluate(torch.double), strict=True
        )
    ]


def released(x, w_q, b_q, w_k, b_k, w_v, b_v):
    """The sums of the released code, as they stand there."""
    q, k, v = (
        torch.einsum('nc,hdc->nhd', x, weight) + bias
        for weight, bias in ((w_q, b_q), (w_k, b_k), (w_v, b_v))
    )
    q, k = q / q.norm(), k / k.norm()
    pairs = torch.einsum('mhd,mhe->hde', k, v)
    above = torch.einsum('nhd,hde->nhe', q, pairs) + v.sum(0)
    below = torch.einsum('nhd,hd->nh', q, k.sum(0)) + x.size(0)
    return (above / below.unsqueeze(-1)).mean(1)


def test_float32_is_at_least_as_exact_as_the_released_form():
    gen = torch.Generator().manual_seed(3)
    x = torch.randn(4000, 16, generator=gen, dtype=torch.double)
    cotangent = torch.randn(4000, 16, generator=gen, dtype=torch.double)
    case = x, maps(2, 16, 16), cotangent
    ours = errors_in_float32(gram_attention, *case)
    theirs = errors_in_float32(released, *case)
    for error, other in zip(ours, theirs, strict=True):
        assert error <= max(other, 2e-7)


@pytest.mark.parametrize('normalize', NORMS)
@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_half_types_keep_what_distinguishes_the_nodes(normalize, dtype):
    gen = torch.Generator().manual_seed(4)
    x = torch.randn(1000, 8, generator=gen).to(dtype)
    tensors = [t.detach() for t in maps(2, 8, 8, dtype=dtype)]
    out = FAST[normalize](x, *tensors)
    assert out.dtype == dtype
    exact = FAST[normalize](x.double(), *(t.double() for t in tensors))
    eps = torch.finfo(dtype).eps
    # nothing but the rounding of the output
    assert (out - exact).abs().max() <= 1.01 * eps * exact.abs().max()
    q, k, v = (t.to(dtype) for t in inputs(1000, seed=5))
    out = linear_attention(q, k, v, normalize=normalize)
    exact = all_pairs(q.double(), k.double(), v.double(), normalize)
    assert (out - exact).abs().max() <= 1.01 * eps * exact.abs().max()


@pytest.mark.parametrize('normalize', NORMS)
def test_zero_features_are_averaged(normalize):
    x = torch.zeros(5, 3, requires_grad=True)
    w_q, w_k, w_v = torch.randn(3, 2, 4, 3)
    none = torch.zeros(2, 4)
    b_v = torch.randn(2, 4)
    out = FAST[normalize](x, w_q, none, w_k, none, w_v, b_v)
    close(out, b_v.mean(0).expand(5, -1), 1e-6)
    (grad,) = torch.autograd.grad(out[0].sum(), x)
    close(grad, (w_v.mean(0).sum(0) / 5).expand(5, -1), 1e-6)


@pytest.mark.parametrize('normalize', NORMS)
def test_opposed_query_and_key_of_one_node(normalize):
    # the mass of the only pair is zero: the output is the value all the same
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    w = torch.eye(2).unsqueeze(0)
    zero = torch.zeros(1, 2)
    out = FAST[normalize](x, w, zero, -w, zero, 3 * w, zero)
    close(out, 3 * x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    close(grad, torch.full((1, 2), 3.0))


@pytest.mark.parametrize('normalize', NORMS)
def test_no_nodes(normalize):
    x = torch.zeros(0, 3, requires_grad=True)
    tensors = maps(2, 3, 4, dtype=torch.float)
    out = FAST[normalize](x, *tensors)
    assert out.shape == (0, 4)
    for grad in torch.autograd.grad(out.sum(), [x, *tensors]):
        assert (grad == 0).all()
    q, k, v = torch.zeros(3, 0, 2, 4)
    batch = torch.zeros(0, dtype=torch.long)
    for sizes in ({}, {'batch': batch}, {'batch': batch, 'batch_size': 3}):
        assert linear_attention(q, k, v, **sizes).shape == (0, 2, 4)


def test_wrong_input():
    q, k, v = inputs(4)
    with pytest.raises(ValueError, match=r'q and k of shape \[N, H, D\]'):
        linear_attention(q, k[:3], v)
    with pytest.raises(ValueError, match="must be 'node' or 'global'"):
        linear_attention(q, k, v, normalize='row')
    batch = torch.tensor([0, 0, 1, 2])
    with pytest.raises(ValueError, match='names graph 2, but there are only'):
        linear_attention(q, k, v, batch, batch_size=2)
    with pytest.raises(ValueError, match='graph of every node'):
        linear_attention(q, k, v, batch[:3])
    with pytest.raises(ValueError, match='not both'):
        linear_attention(q, k, v, batch, ptr=batch)
    with pytest.raises(ValueError, match="'batch_size' needs 'batch'"):
        linear_attention(q, k, v, batch_size=2)
    with pytest.raises(ValueError, match='must end at the number of nodes'):
        linear_attention(q, k, v, ptr=torch.tensor([0, 3]))
