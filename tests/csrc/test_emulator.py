"""The CUDA source, run by the emulator, against the float64 reference."""

import math

import pytest
import torch

from torch_energy_graph.ops import GraphCache, reference
from torch_energy_graph.ops.plan import CHUNK

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def random_edges(num_dst, num_src, num_edges, gen):
    """Directed multigraph whose last target and last source have no edge."""
    src = torch.randint(num_src - 1, (num_edges,), generator=gen)
    dst = torch.randint(num_dst - 1, (num_edges,), generator=gen)
    return torch.stack([src, dst])


def graph_of(kind, gen):
    """Edges and sizes (sources, targets)."""
    if kind == 'full scratch':  # as many pieces as there may be, on both sides
        return torch.zeros(2, 2 * CHUNK - 1, dtype=torch.long), (1, 1)
    num_dst, num_src = (190, 230) if kind == 'hubs' else (9, 13)
    edges = random_edges(num_dst, num_src, 70, gen)
    if kind == 'hubs':  # of one, two and three pieces
        into = random_edges(num_dst, num_src, 2 * CHUNK + 40, gen)
        out_of = random_edges(num_dst, num_src, CHUNK + 1, gen)
        whole = random_edges(num_dst, num_src, CHUNK, gen)
        into[1], out_of[0], whole[0] = 3, 5, 2
        edges = torch.cat([edges, into, out_of, whole], dim=1)
        edges = edges[:, torch.randperm(edges.size(1), generator=gen)]
    elif kind == 'no edges':
        edges = edges[:, :0]
    return edges, (num_src, num_dst)


class Problem:
    """Inputs, and the right answers in float64 for these rounded inputs."""

    def __init__(self, kind, heads, channels, dtype, with_bias, seed=0):
        gen = torch.Generator().manual_seed(seed)
        edges, sizes = graph_of(kind, gen)
        self.graph = GraphCache.from_edge_index(edges, sizes)
        self.src, self.dst = edges
        num_src, num_dst = sizes

        def draw(*shape, dtype=dtype):
            return torch.randn(shape, generator=gen).to(dtype)

        scale = channels**-0.25
        self.q = draw(num_dst, heads, channels) * scale
        self.k = draw(num_src, heads, channels) * scale
        self.bias = None
        if with_bias:  # masks some edges, and one whole row
            self.bias = draw(edges.size(1), heads, dtype=torch.float32)
            self.bias[::5] = -torch.inf
            self.bias[self.dst == 1, 0] = -torch.inf
        self.grads = [
            draw(num_dst, heads, dtype=torch.float32),
            draw(num_dst, heads, channels),
            draw(num_src, heads, channels),
        ]

    def run(self, emulator):
        """lse, u, v, and the gradients of q, k and perhaps the bias."""
        inputs = (self.q, self.k, self.graph, self.bias)
        lse, u, v = emulator.forward(*inputs)
        self.grads[0][lse.isinf()] = 0.0
        backward = emulator.backward(self.grads, *inputs, lse, u)
        return lse, u, v, *(g for g in backward if g is not None)

    def expected(self):
        """The same; nothing is rounded between the two passes."""
        bias = None if self.bias is None else self.bias.double()
        inputs = (self.q.double(), self.k.double(), self.src, self.dst, bias)
        lse, u, v = reference.energy_attention(*inputs)
        grads = [g.double() for g in self.grads]
        grads[0] = grads[0].masked_fill(lse.isinf(), 0.0)
        backward = reference.energy_attention_backward(grads, *inputs, lse, u)
        return lse, u, v, *backward[: 2 if bias is None else 3]


def assert_close(out, expected, dtype):
    finite = expected.isfinite()
    assert torch.equal(out.isfinite(), finite)
    assert torch.equal(out[~finite].double(), expected[~finite])
    out, expected = out[finite].double(), expected[finite]
    if expected.numel():
        error = (out - expected).abs().max() / expected.abs().max().clamp(1e-9)
        assert error <= TOLERANCE[dtype]


def check(emulator, problem):
    out = problem.run(emulator)
    for value, right in zip(out, problem.expected(), strict=True):
        assert_close(value, right, problem.q.dtype)


HEADS = [1, 2, 3, 4, 8]
TYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize('with_bias', [False, True])
@pytest.mark.parametrize('channels', [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize('heads', HEADS)
def test_float32(emulator, heads, channels, with_bias):
    case = ('small', heads, channels, torch.float32, with_bias)
    check(emulator, Problem(*case))


@pytest.mark.parametrize('with_bias', [False, True])
@pytest.mark.parametrize('channels', [8, 16, 32, 64, 128, 256])
@pytest.mark.parametrize('heads', HEADS)
def test_bfloat16(emulator, heads, channels, with_bias):
    case = ('small', heads, channels, torch.bfloat16, with_bias)
    check(emulator, Problem(*case))


@pytest.mark.parametrize(
    ('heads', 'channels', 'dtype'),
    [
        (3, 4, torch.float32),
        (1, 64, torch.float32),
        (1, 8, torch.bfloat16),
        (5, 64, torch.bfloat16),
    ],
)
def test_hubs_in_pieces(emulator, heads, channels, dtype):
    check(emulator, Problem('hubs', heads, channels, dtype, True))


@pytest.mark.full
@pytest.mark.parametrize('with_bias', [False, True])
@pytest.mark.parametrize('channels', [8, 16, 32, 64, 128])
@pytest.mark.parametrize('heads', HEADS)
@pytest.mark.parametrize('dtype', TYPES)
def test_hubs_of_all_shapes(emulator, heads, channels, dtype, with_bias):
    check(emulator, Problem('hubs', heads, channels, dtype, with_bias))


@pytest.mark.parametrize('dtype', TYPES)
def test_scratch_is_large_enough(emulator, dtype):
    check(emulator, Problem('full scratch', 1, 8, dtype, True))


def test_more_pieces_than_warps_merge(emulator):
    problem = Problem('hubs', 4, 16, torch.float32, False)
    gen = torch.Generator().manual_seed(1)
    edges = random_edges(190, 230, 20 * CHUNK + 3, gen)
    edges[1] = 4
    problem.src, problem.dst = edges
    problem.graph = GraphCache.from_edge_index(edges, (230, 190))
    check(emulator, problem)


@pytest.mark.parametrize('dtype', TYPES)
def test_no_edges(emulator, dtype):
    check(emulator, Problem('no edges', 2, 8, dtype, True))


def test_large_logits_do_not_overflow(emulator):
    problem = Problem('small', 2, 8, torch.float32, False)
    problem.q *= 60.0
    lse, u, v = problem.expected()[:3]
    assert lse[lse.isfinite()].abs().max() > math.log(torch.finfo().max)
    out = emulator.forward(problem.q, problem.k, problem.graph)
    # logits carry a rounding error of 2^-24 of their size
    bound = 4 * float(lse[lse.isfinite()].abs().max()) * 2**-24
    for value, right in zip(out, (lse, u, v), strict=True):
        assert torch.equal(value.isfinite(), right.isfinite())
        error = (value.double() - right).nan_to_num(0.0).abs().max()
        assert error <= bound * right[right.isfinite()].abs().max()


def test_a_masking_bias_removes_edges(emulator):
    problem = Problem('small', 2, 8, torch.float32, True)
    kept = torch.rand(70, generator=torch.Generator().manual_seed(2)) < 0.5
    problem.bias = torch.zeros(70, 2).masked_fill(~kept[:, None], -torch.inf)
    out = emulator.forward(problem.q, problem.k, problem.graph, problem.bias)
    edges = torch.stack([problem.src, problem.dst])[:, kept]
    graph = GraphCache.from_edge_index(edges, (13, 9))
    expected = emulator.forward(problem.q, problem.k, graph)
    for value, right in zip(out, expected, strict=True):
        torch.testing.assert_close(value, right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('poison', [torch.nan, torch.inf])
def test_nan_and_infinity_are_not_hidden(emulator, poison):
    problem = Problem('small', 2, 8, torch.float32, False)
    clean = emulator.forward(problem.q, problem.k, problem.graph)
    problem.q[3, 1, 5] = poison
    lse, u, v = emulator.forward(problem.q, problem.k, problem.graph)
    sources = problem.src[problem.dst == 3].unique()
    assert sources.numel()
    assert not lse[3, 1].isfinite()
    assert u[3, 1].isnan().all()
    assert v[sources, 1].isnan().any(-1).all()
    others = torch.ones(9, dtype=torch.bool).index_fill(
        0, torch.tensor(3), False
    )
    assert torch.equal(u[others], clean[1][others])
    assert torch.equal(v[:, 0], clean[2][:, 0])


def test_bfloat16_is_rounded_to_even(emulator):
    # targets 0 and 1 have the one source 0, so v_0 = q_0 + q_1
    graph = GraphCache.from_edge_index(torch.tensor([[0, 0], [0, 1]]))
    q = torch.zeros(2, 1, 8, dtype=torch.bfloat16)
    q[0, 0, :2] = torch.tensor([1.0, 1.0 + 2**-7])
    q[1, 0, :2] = 2**-8  # half a step
    k = torch.zeros(2, 1, 8, dtype=torch.bfloat16)
    _, _, v = emulator.forward(q, k, graph)
    assert v[0, 0, :2].tolist() == [1.0, 1.0 + 2**-6]


def test_bfloat16_keeps_every_nan(emulator):
    graph = GraphCache.from_edge_index(torch.tensor([[0], [0]]))
    q = torch.ones(1, 1, 8, dtype=torch.bfloat16)
    # the NaN of GPUs: rounding it like a number would carry into the sign
    bias = torch.tensor([[0x7FFFFFFF]], dtype=torch.int32).view(torch.float32)
    out = emulator.forward(q, q, graph, bias)
    assert all(value.isnan().all() for value in out)


@pytest.mark.parametrize('dtype', TYPES)
def test_same_bits_whatever_the_order_of_threads(emulator, dtype):
    problem = Problem('hubs', 3, 8, dtype, False)
    out = problem.run(emulator)
    emulator.backwards(True)
    try:
        again = problem.run(emulator)
    finally:
        emulator.backwards(False)
    for a, b in zip(out, again, strict=True):
        assert torch.equal(a, b)


def groups(kind, gen):
    """Boundaries of groups: empty ones, and some of more than 512 entries."""
    sizes = [3, 0, 40, 1, 1, 7, 0, 33, 2, 5, 11]
    if kind == 'long':  # two of them in one block
        sizes[4], sizes[5], sizes[6] = CHUNK + 100, CHUNK, 2 * CHUNK
        sizes[9] = 4 * CHUNK + 9
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    return ptr, torch.randperm(int(ptr[-1]), generator=gen).int()


@pytest.mark.parametrize('kind', ['short', 'long'])
@pytest.mark.parametrize('sorted_rows', [True, False])
@pytest.mark.parametrize('dtype', TYPES)
@pytest.mark.parametrize('features', [1, 3, 8, 37])
def test_softmax(emulator, features, dtype, sorted_rows, kind):
    gen = torch.Generator().manual_seed(features)
    ptr, perm = groups(kind, gen)
    num_entries, num_groups = int(ptr[-1]), ptr.numel() - 1
    index = torch.arange(num_groups).repeat_interleave(ptr.diff())
    if sorted_rows:
        perm = None
    else:
        index = torch.empty_like(index).index_copy_(0, perm.long(), index)
    src = torch.randn(num_entries, features, generator=gen).to(dtype) * 8
    src[index == 2] = -torch.inf
    src[::4, 0] = -torch.inf
    expected = reference.scatter_softmax(src.double(), index, num_groups)
    out = emulator.softmax(src, ptr, perm)
    assert_close(out, expected, dtype)

    grad = torch.randn(num_entries, features, generator=gen).to(dtype)
    p, g = out.double(), grad.double()
    total = p.new_zeros(num_groups, features).index_add_(0, index, p * g)
    out = emulator.softmax(out, ptr, perm, grad)
    assert_close(out, p * (g - total[index]), dtype)


def test_softmax_keeps_nan(emulator):
    src = torch.tensor([[1.0], [torch.nan], [2.0], [2.0]])
    out = emulator.softmax(src, torch.tensor([0, 2, 4]))
    assert out[:2].isnan().all()
    assert out[2:].flatten().tolist() == [0.5, 0.5]


def test_the_emulator_finds_what_it_is_for(emulator):
    error = emulator.lib.emulator_deadlock()
    assert error == b'a barrier that not all threads reach'
    assert math.isnan(emulator.lib.emulator_fresh_shared())
