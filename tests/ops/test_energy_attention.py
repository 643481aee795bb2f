import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_energy_graph.ops import (
    GraphCache,
    backends,
    energy_attention,
    library,
    sddmm,
    use_backend,
)

BACKENDS = [name for name, state in backends().items() if state.available]


@pytest.fixture(autouse=True, params=['sparse products', 'small graph'])
def small(request, monkeypatch):
    """Every test also runs with sparse products on its small graphs."""
    if request.param == 'sparse products':
        monkeypatch.setattr(library, '_SMALL', -1)


def problem(num_dst, num_src, num_edges, heads=2, channels=3, seed=0):
    """Bipartite multigraph whose last target and last source have no edge."""
    gen = torch.Generator().manual_seed(seed)
    src = torch.randint(max(num_src - 1, 1), (num_edges,), generator=gen)
    dst = torch.randint(max(num_dst - 1, 1), (num_edges,), generator=gen)

    def draw(*shape):
        return torch.randn(shape, generator=gen, dtype=torch.double)

    q, k = draw(num_dst, heads, channels), draw(num_src, heads, channels)
    return q, k, torch.stack([src, dst]), draw(num_edges, heads)


def energy(q, k, edges, beta, bias):
    """The scalar energy, one query and one edge at a time."""
    total = q.new_zeros(())
    for h in range(q.size(1)):
        for i in range(q.size(0)):
            logits = [
                beta[h] * q[i, h] @ k[j, h] + bias[e, h]
                for e, (j, t) in enumerate(edges.t().tolist())
                if t == i
            ]
            if logits:
                lse = torch.stack(logits).logsumexp(0)
                total = total - lse / beta[h]
    return total


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('num_edges', [0, 1, 30])
def test_values_are_gradients_of_the_scalar_energy(backend, num_edges):
    q, k, edges, bias = problem(5, 7, num_edges)
    beta = torch.tensor([0.4, 1.7], dtype=torch.double)
    q.requires_grad_(), k.requires_grad_()
    value = energy(q, k, edges, beta, bias)
    if num_edges:
        grad_q, grad_k = torch.autograd.grad(value, (q, k))
    else:
        grad_q, grad_k = torch.zeros_like(q), torch.zeros_like(k)
    with use_backend(backend):
        lse, u, v = energy_attention(q, k, edges, beta, bias)
    found = -(lse.masked_fill(lse.isinf(), 0) / beta).sum()
    torch.testing.assert_close(found, value, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(u, -grad_q, rtol=0, atol=1e-12)
    torch.testing.assert_close(v, -grad_k, rtol=0, atol=1e-12)
    empty = torch.bincount(edges[1], minlength=5) == 0
    assert lse[empty].eq(-torch.inf).all()


def test_two_keys_by_hand():
    q = torch.tensor([[[2.0]]])
    k = torch.tensor([[[1.0]], [[0.0]]])
    edges = torch.tensor([[0, 1], [0, 0]])
    lse, u, v = energy_attention(q, k, edges, beta=0.5)
    e = torch.tensor(1.0).exp()  # logits 1 and 0
    torch.testing.assert_close(lse, torch.log(e + 1).view(1, 1))
    torch.testing.assert_close(u, (e / (e + 1)).view(1, 1, 1))
    torch.testing.assert_close(
        v.flatten(), 2 * torch.stack([e, e / e]) / (e + 1)
    )


def outputs(args, beta):
    lse, u, v = energy_attention(*args[:2], args[2], beta, args[3])
    return lse.masked_fill(lse.isinf(), 0.0), u, v


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('with_bias', [True, False])
def test_gradcheck_to_second_order(backend, with_bias):
    q, k, edges, bias = problem(4, 5, 14)
    beta = torch.tensor([0.6, 1.2], dtype=torch.double)
    inputs = [q, k, beta, *([bias] if with_bias else [])]
    inputs = [t.requires_grad_() for t in inputs]

    def function(q, k, beta, bias=None):
        return outputs((q, k, edges, bias), beta)

    with use_backend(backend):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize('block', [1, 4, 2**18])
@pytest.mark.parametrize('sizes', [(6, 6, 40), (1, 1, 9), (3, 2, 30)])
def test_blocks_do_not_change_the_result(monkeypatch, block, sizes):
    # (1, 1, 9): more parallel edges than the matrix has places
    q, k, edges, bias = problem(*sizes)
    grads = {}
    for name in BACKENDS:
        monkeypatch.setattr(sddmm, '_BLOCK', block)
        leaves = [t.clone().requires_grad_() for t in (q, k, bias)]
        with use_backend(name):
            out = outputs((leaves[0], leaves[1], edges, leaves[2]), 0.7)
        loss = sum((t * t.detach().cos()).sum() for t in out)
        grads[name] = [*out, *torch.autograd.grad(loss, leaves)]
    expected = grads.pop('reference')
    for found in grads.values():
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@given(
    st.integers(1, 8), st.integers(1, 8), st.integers(0, 40),
    st.integers(0, 10_000),
)  # fmt: skip
def test_the_order_of_edges_does_not_matter(num_dst, num_src, num_edges, seed):
    q, k, edges, bias = problem(num_dst, num_src, num_edges, seed=seed)
    perm = torch.randperm(num_edges)
    expected = energy_attention(q, k, edges, 1.3, bias)
    found = energy_attention(q, k, edges[:, perm], 1.3, bias[perm])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('with_bias', [True, False])
@pytest.mark.parametrize('num_edges', [0, 20])
def test_opcheck(with_bias, num_edges):
    q, k, edges, bias = problem(4, 5, num_edges)
    graph = GraphCache.from_edge_index(edges, (5, 4))
    q.requires_grad_(), k.requires_grad_(), bias.requires_grad_()
    args = (q, k, bias if with_bias else None, graph.arrays())
    torch.library.opcheck(library.energy_attention, args)


def test_the_raw_backward_refuses_to_be_differentiated():
    q, k, edges, _ = problem(4, 5, 20)
    graph = GraphCache.from_edge_index(edges, (5, 4))
    lse, u, v = energy_attention(q, k, graph, 1.0)
    lse = lse.masked_fill(lse.isinf(), 0.0)
    q.requires_grad_()
    grad_q, _, _ = library.energy_attention_backward(
        lse, u, v, q, k, None, lse, u, graph.arrays()
    )
    with pytest.raises(RuntimeError, match='no autograd formula'):
        grad_q.sum().backward()


@pytest.mark.parametrize(
    ('dtype', 'tol'),
    [(torch.float32, 2e-6), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)],
)
@pytest.mark.parametrize('backend', BACKENDS)
def test_lower_precision_is_close_to_float64(backend, dtype, tol):
    q, k, edges, bias = problem(40, 30, 600, heads=3, channels=16)
    expected = energy_attention(
        q.to(dtype).double(), k.to(dtype).double(), edges, 0.25, bias
    )
    with use_backend(backend):
        found = energy_attention(
            q.to(dtype), k.to(dtype), edges, 0.25, bias.float()
        )
    assert found[0].dtype == torch.float32
    assert found[1].dtype == found[2].dtype == dtype
    for a, b in zip(found, expected, strict=True):
        scale = b[b.isfinite()].abs().max()
        error = (a.double() - b)[b.isfinite()].abs().max() / scale
        assert error <= tol


def test_large_logits_do_not_overflow():
    q = torch.tensor([[[1e4]], [[-1e4]]])
    k = torch.tensor([[[1.0]], [[2.0]]])
    edges = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 1]])
    lse, u, _ = energy_attention(q, k, edges, 1.0)
    torch.testing.assert_close(lse.flatten(), torch.tensor([2e4, -1e4]))
    torch.testing.assert_close(u.flatten(), torch.tensor([2.0, 1.0]))


def test_repeated_calls_give_the_same_bits():
    q, k, edges, bias = problem(50, 50, 900, heads=4, channels=8)
    args = (q.float(), k.float(), edges, 0.5, bias.float())
    for a, b in zip(
        energy_attention(*args), energy_attention(*args), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize('backend', BACKENDS)
def test_a_compiled_caller_follows_the_backend(backend):
    q, k, edges, bias = problem(5, 5, 12)
    compiled = torch.compile(outputs, fullgraph=True, backend='aot_eager')
    expected = outputs((q, k, edges, bias), 0.8)
    for name in (backend, 'torch'):
        with use_backend(name):
            found = compiled((q, k, edges, bias), 0.8)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
