import pytest
import torch

from torch_geometric.utils import softmax

from torch_energy_graph.ops import backends, scatter_softmax, use_backend
from torch_energy_graph.ops.softmax import _scatter_softmax

BACKENDS = [name for name, state in backends().items() if state.available]


@pytest.fixture(autouse=True, params=BACKENDS)
def backend(request):
    with use_backend(request.param):
        yield request.param


def test_equals_pyg_where_pyg_is_right():
    src = torch.randn(20, 3, dtype=torch.double)
    index = torch.randint(0, 5, (20,))
    found = scatter_softmax(src, index, num_nodes=7)
    expected = softmax(src, index, num_nodes=7)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_ptr_equals_index():
    src = torch.randn(6, 2, dtype=torch.double)
    by_ptr = scatter_softmax(src, ptr=torch.tensor([0, 2, 2, 6]))
    by_index = scatter_softmax(src, torch.tensor([0, 0, 2, 2, 2, 2]))
    torch.testing.assert_close(by_ptr, by_index, rtol=0, atol=1e-12)
    assert by_ptr[2:].sum(0).allclose(torch.ones(2, dtype=torch.double))


def test_masked_entries_and_groups():
    inf = float('inf')
    src = torch.tensor([0.0, -inf, -inf, -inf, 3.0], requires_grad=True)
    out = scatter_softmax(src, torch.tensor([0, 0, 1, 1, 3]), num_nodes=4)
    assert out.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    out.square().sum().backward()
    assert src.grad.isfinite().all()


def test_gradcheck_to_second_order():
    src = torch.randn(9, 2, dtype=torch.double, requires_grad=True)
    index = torch.tensor([0, 2, 2, 0, 1, 2, 2, 4, 0])

    def function(src):
        return scatter_softmax(src, index, num_nodes=5)

    assert torch.autograd.gradcheck(function, src)
    assert torch.autograd.gradgradcheck(function, src)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({}, 'exactly one'),
        ({'index': torch.zeros(3), 'ptr': torch.zeros(2)}, 'exactly one'),
        ({'index': torch.zeros(2).long()}, r'one index per row of src, \[3\]'),
        ({'ptr': torch.zeros(0).long()}, r'ptr of shape \[N \+ 1\]'),
        ({'ptr': torch.tensor([0, 4, 3])}, 'ptr must rise'),
        ({'ptr': torch.tensor([0, 2])}, 'ptr must rise from 0 to the 3 rows'),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        scatter_softmax(torch.zeros(3), **arguments)


def by_hand(src, index, num_groups):
    """One group and one column at a time, in float64."""
    out = torch.zeros(src.shape, dtype=torch.double)
    for g in range(num_groups):
        out[index == g] = src[index == g].double().softmax(0)
    return out


@pytest.mark.parametrize(
    ('dtype', 'tol'),
    [
        (torch.float64, 1e-12),
        (torch.float32, 2e-6),
        (torch.bfloat16, 1e-2),
        (torch.float16, 2e-3),
    ],
)
@pytest.mark.parametrize('columns', [1, 3, 4, 8])
def test_values_and_gradients(dtype, tol, columns):
    gen = torch.Generator().manual_seed(0)
    index = torch.randint(6, (3000,), generator=gen)
    index[:1500] = 2  # a hub
    src = torch.randn(3000, columns, generator=gen).to(dtype)
    weight = torch.randn(3000, columns, generator=gen).to(dtype)
    src.requires_grad_()
    out = scatter_softmax(src, index, num_nodes=7)
    (grad,) = torch.autograd.grad(out, src, weight)
    true = src.detach().double().requires_grad_()
    expected = by_hand(true, index, 7)
    (expected_grad,) = torch.autograd.grad(expected, true, weight.double())
    for a, b in ((out, expected), (grad, expected_grad)):
        assert a.dtype == dtype
        error = (a.double() - b).abs().max() / b.abs().max()
        assert error <= tol


def test_trailing_dimensions_and_no_entries():
    src = torch.randn(5, 2, 3)
    index = torch.tensor([0, 1, 0, 1, 1])
    found = scatter_softmax(src, index)
    flat = scatter_softmax(src.view(5, 6), index)
    assert torch.equal(found.view(5, 6), flat)
    none = torch.empty(0, dtype=torch.long)
    assert scatter_softmax(torch.empty(0, 4), none).shape == (0, 4)
    assert scatter_softmax(torch.empty(0, 4), none, num_nodes=3).numel() == 0


def test_an_index_outside_of_the_groups():
    with pytest.raises(IndexError, match='index 5, but there are only 3'):
        scatter_softmax(
            torch.zeros(2), torch.tensor([0, 5]), num_nodes=3
        )  # fmt: skip
    with pytest.raises(IndexError, match='index -1'):
        scatter_softmax(torch.zeros(2), torch.tensor([0, -1]))


def test_opcheck():
    src = torch.randn(5, 2, dtype=torch.double, requires_grad=True)
    ptr = torch.tensor([0, 2, 2, 5])
    perm = torch.tensor([4, 0, 1, 3, 2], dtype=torch.int32)
    index = torch.tensor([0, 2, 2, 0, 2])
    for groups in ((index, None, None), (None, ptr, perm), (None, ptr, None)):
        torch.library.opcheck(_scatter_softmax, (src, *groups, 3))


def test_threads_do_not_change_a_bit():
    src = torch.randn(40_000, 2)
    index = torch.randint(700, (40_000,))
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(scatter_softmax(src, index))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(out, found[0]) for out in found)


def test_fullgraph():
    src = torch.randn(6, 2)
    index = torch.tensor([0, 2, 2, 0, 1, 2])

    def function(src, index):
        return scatter_softmax(src, index, num_nodes=4).square()

    compiled = torch.compile(function, fullgraph=True, backend='aot_eager')
    torch.testing.assert_close(compiled(src, index), function(src, index))
