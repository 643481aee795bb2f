"""Every backend against the float64 reference, on one grid."""

import copy
import gc
from dataclasses import dataclass, replace

import pytest
import torch

from torch_energy_graph.ops import (
    GraphCache,
    backends,
    edge_wise,
    energy_attention,
    library,
    use_backend,
)

BACKENDS = [name for name, state in backends().items() if state.available]
FAST = [name for name in BACKENDS if name != 'reference']
DTYPES = [
    (torch.float64, 1e-10),
    (torch.float32, 2e-6),
    (torch.bfloat16, 1e-2),
]


@dataclass
class Problem:
    q: torch.Tensor
    k: torch.Tensor
    bias: torch.Tensor
    graph: GraphCache


def skewed_edges(num_src, num_dst, num_edges, gen):
    """Lognormal degrees, parallel edges, the first and last nodes without."""

    def ends(size):
        weight = torch.exp(1.2 * torch.randn(size, generator=gen))
        weight[[0, -1]] = 0.0 if size > 2 else 1.0
        return torch.multinomial(weight, num_edges, True, generator=gen)

    return torch.stack([ends(num_src), ends(num_dst)])


def problem(
    dtype=torch.float64, heads=2, channels=16, nodes=(40, 30), num_edges=1500,
    seed=0,
):  # fmt: skip
    gen = torch.Generator().manual_seed(seed)
    num_src, num_dst = nodes
    edges = torch.empty(2, 0, dtype=torch.long)
    if num_edges:
        edges = skewed_edges(num_src, num_dst, num_edges, gen)
    q = torch.randn(num_dst, heads, channels, generator=gen)
    k = torch.randn(num_src, heads, channels, generator=gen)
    bias = torch.randn(num_edges, heads, generator=gen)
    wide = torch.promote_types(dtype, torch.float32)
    return Problem(
        (q / channels**0.5).to(dtype),
        k.to(dtype),
        bias.to(wide),
        GraphCache.from_edge_index(edges, (num_src, num_dst)),
    )


def upstream(tensors):
    gen = torch.Generator().manual_seed(7)
    return [
        torch.randn(t.shape, generator=gen).to(t.dtype) for t in tensors
    ]  # fmt: skip


def outputs_and_gradients(p, with_bias=True):
    """Outputs, and gradients of q, k and the bias, of the public operator."""
    leaves = [t.clone().requires_grad_() for t in (p.q, p.k, p.bias)]
    bias = leaves[2] if with_bias else None
    out = energy_attention(leaves[0], leaves[1], p.graph, 1.0, bias)
    out = (out[0].masked_fill(out[0].isinf(), 0.0), *out[1:])
    leaves = leaves if with_bias else leaves[:2]
    grads = torch.autograd.grad(out, leaves, upstream(out))
    return [*(t.detach() for t in out), *grads]


def expected(p, with_bias=True):
    """The same in float64, by the formulas of the reference."""
    q, k, bias = p.q.double(), p.k.double(), p.bias.double()
    bias = bias if with_bias else None
    lse, u, v = edge_wise.forward(q, k, bias, p.graph)
    wide = torch.promote_types(p.q.dtype, torch.float32)
    like = lse.to(wide), u.to(p.q.dtype), v.to(p.q.dtype)
    grads = [g.double() for g in upstream(like)]
    grads[0] = grads[0].masked_fill(lse.isinf(), 0.0)
    grad = edge_wise.backward(grads, q, k, bias, lse, u, p.graph)
    lse = lse.masked_fill(lse.isinf(), 0.0)
    return [lse, u, v, *(g for g in grad if g is not None)]


def error(found, true):
    if true.numel() == 0 or not true.any():
        return found.double().abs().max().item() if found.numel() else 0.0
    return ((found.double() - true).abs().max() / true.abs().max()).item()


def poison(like):
    """Leaves NaN in the memory that an allocator hands out next."""
    blocks = [
        torch.full_like(t, torch.nan) for t in like for _ in range(4)
    ]  # fmt: skip
    del blocks
    gc.collect()


@pytest.mark.parametrize(('dtype', 'tol'), DTYPES)
@pytest.mark.parametrize('channels', [1, 7, 16, 32, 64, 128])
@pytest.mark.parametrize('heads', [1, 2, 3, 4, 8])
def test_values_and_gradients(monkeypatch, heads, channels, dtype, tol):
    p = problem(dtype, heads, channels)
    true = expected(p)
    # in float64, the reference is the definition: its own sums are plain
    for backend in BACKENDS if dtype == torch.float64 else FAST:
        monkeypatch.setattr(library, '_SMALL', -1)
        poison((p.q, p.k, p.bias))
        with use_backend(backend):
            found = outputs_and_gradients(p)
        for a, b in zip(found, true, strict=True):
            assert error(a, b) <= tol, backend


@pytest.mark.parametrize('with_bias', [True, False])
@pytest.mark.parametrize(
    ('nodes', 'num_edges'),
    [((5, 4), 0), ((1, 1), 0), ((1, 1), 700), ((3, 2), 2000), ((300, 7), 900)],
)
@pytest.mark.parametrize('backend', FAST)
def test_unusual_graphs(backend, nodes, num_edges, with_bias):
    # 700 and 2000 edges at few nodes: hubs, and pieces that are merged
    p = problem(nodes=nodes, num_edges=num_edges)
    true = expected(p, with_bias)
    poison((p.q, p.k, p.bias))
    with use_backend(backend):
        found = outputs_and_gradients(p, with_bias)
    for a, b in zip(found, true, strict=True):
        assert error(a, b) <= 1e-10


@pytest.mark.parametrize('backend', FAST)
def test_no_nodes_at_all(backend):
    graph = GraphCache.from_edge_index(torch.empty(2, 0).long(), 0)
    q = torch.randn(0, 2, 8, requires_grad=True)
    with use_backend(backend):
        lse, u, v = energy_attention(q, q, graph, 1.0)
    (lse.sum() + u.sum() + v.sum()).backward()
    assert u.shape == v.shape == q.grad.shape == (0, 2, 8)


@pytest.mark.parametrize('backend', FAST)
def test_a_hub_with_200_000_neighbours(backend):
    gen = torch.Generator().manual_seed(0)
    num_src, num_edges = 1000, 200_000
    src = torch.randint(num_src, (num_edges,), generator=gen)
    graph = GraphCache.from_edge_index(
        torch.stack([src, torch.zeros_like(src)]), (num_src, 1)
    )
    p = problem(torch.float32, 2, 16, (num_src, 1), num_edges)
    p.graph = graph
    true = expected(p)
    with use_backend(backend):
        found = outputs_and_gradients(p)
    for a, b in zip(found, true, strict=True):
        assert error(a, b) <= 1e-5


@pytest.mark.parametrize('dtype', [torch.float64, torch.float32])
@pytest.mark.parametrize('backend', BACKENDS)
def test_masked_edges_and_rows(monkeypatch, backend, dtype):
    monkeypatch.setattr(library, '_SMALL', -1)
    p = problem(dtype)
    p.bias[::3] = -torch.inf
    p.bias[p.graph.edge_row[p.graph.targets() == 5].long()] = -torch.inf
    with use_backend(backend):
        lse, u, v = energy_attention(p.q, p.k, p.graph, 1.0, p.bias)
        found = outputs_and_gradients(p)
    assert lse[5].eq(-torch.inf).all()
    assert not u[5].any()
    assert v.isfinite().all()
    tol = 1e-10 if dtype == torch.float64 else 2e-6
    for a, b in zip(found, expected(p), strict=True):
        assert error(a, b) <= tol


@pytest.mark.parametrize('value', [torch.nan, torch.inf])
@pytest.mark.parametrize('backend', BACKENDS)
def test_bad_numbers_are_not_hidden(monkeypatch, backend, value):
    monkeypatch.setattr(library, '_SMALL', -1)
    q = torch.ones(2, 1, 4)
    k = torch.ones(3, 1, 4)
    k[1, 0, 2] = value
    edges = torch.tensor([[0, 1, 2, 0], [0, 0, 0, 1]])
    with use_backend(backend):
        lse, u, _ = energy_attention(q, k, edges, 1.0)
    assert not lse[0].isfinite().any()
    assert not u[0].isfinite().all()
    assert u[1].isfinite().all()


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('backend', FAST)
def test_threads_do_not_change_a_bit(backend, dtype):
    p = problem(dtype, 4, 32, (3000, 2500), 60_000)
    found = []
    before = torch.get_num_threads()
    try:
        with use_backend(backend):
            for threads in (1, 1, 2, 3):
                torch.set_num_threads(threads)
                found.append(outputs_and_gradients(p))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert torch.equal(a, b)


def test_callers_in_several_threads():
    from concurrent.futures import ThreadPoolExecutor

    problems = [problem(seed=seed) for seed in range(8)]
    one_by_one = [outputs_and_gradients(p) for p in problems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(outputs_and_gradients, problems))
    for found, true in zip(together, one_by_one, strict=True):
        for a, b in zip(found, true, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize('backend', FAST)
def test_layouts_do_not_matter(backend):
    p = problem(torch.float32)
    args = (p.graph, 1.0, p.bias)
    with use_backend(backend):
        true = energy_attention(p.q, p.k, *args)
        q = p.q.transpose(0, 2).contiguous().transpose(0, 2)
        bias = p.bias.t().contiguous().t()
        found = energy_attention(q, p.k.expand_as(p.k), p.graph, 1.0, bias)
    assert not q.is_contiguous()
    for a, b in zip(found, true, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('backend', FAST)
def test_four_steps_against_the_scalar_energy(backend):
    """T = 4 unrolled steps, gradients against double autograd."""
    gen = torch.Generator().manual_seed(1)
    n, c, h, y = 12, 10, 2, 5
    edges = torch.randint(n - 1, (2, 50), generator=gen)
    graph = GraphCache.from_edge_index(edges, n)

    def draw(*shape):
        return torch.randn(shape, generator=gen, dtype=torch.double) / c**0.5

    x, w_q, w_k = draw(n, c), draw(h, y, c), draw(h, y, c)
    src, dst = edges

    def project(g, w):
        return torch.einsum('nc,hyc->nhy', g, w)

    def energy_step(g, w_q, w_k):
        logits = (project(g, w_q)[dst] * project(g, w_k)[src]).sum(-1)
        total = g.new_zeros(())
        for i in range(n):
            if (dst == i).any():
                total = total - logits[dst == i].logsumexp(0).sum()
        return torch.autograd.grad(total, g, create_graph=True)[0]

    def kernel_step(g, w_q, w_k):
        _, u, v = energy_attention(
            project(g, w_q), project(g, w_k), graph, 1.0
        )  # fmt: skip
        back = torch.einsum('nhy,hyc->nc', u, w_q)
        return -back - torch.einsum('nhy,hyc->nc', v, w_k)

    found = []
    for step in (kernel_step, energy_step):
        leaves = [t.clone().requires_grad_() for t in (x, w_q, w_k)]
        state = leaves[0]
        with use_backend(backend):
            for _ in range(4):
                g = torch.nn.functional.layer_norm(state, (c,))
                state = state - 0.1 * step(g, *leaves[1:])
        loss = state.square().sum()
        found.append([state, *torch.autograd.grad(loss, leaves)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.skipif('cpu' not in BACKENDS, reason='no native kernels')
def test_a_cache_made_by_hand_cannot_point_outside():
    p = problem()
    for field, value in (('col', 40), ('row', -1), ('rowptr', -5)):
        array = getattr(p.graph, field).clone()
        array[3] = value
        graph = replace(p.graph, **{field: array})
        with use_backend('cpu'), pytest.raises(IndexError, match='from_csr'):
            energy_attention(p.q, p.k, graph, 1.0)


def test_a_copied_graph_gives_the_same():
    p = problem()
    found = outputs_and_gradients(copy.deepcopy(p))
    for a, b in zip(found, outputs_and_gradients(p), strict=True):
        assert torch.equal(a, b)


def test_autocast_does_not_reach_the_kernel():
    p = problem(torch.float32)
    expected = energy_attention(p.q, p.k, p.graph, 1.0, p.bias)
    with torch.autocast('cpu', torch.bfloat16):
        found = energy_attention(p.q, p.k, p.graph, 1.0, p.bias)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
