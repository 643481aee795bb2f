import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradgradcheck

from torch_geometric import EdgeIndex
from torch_geometric.typing import WITH_TORCH_SCATTER
from torch_geometric.utils import segment

from torch_energy_graph.ood import second_order_paths
from torch_energy_graph.ood.second_order import plain_edges

PTR = torch.tensor([0, 2, 2, 5])  # the second group is empty


def draw(*size):
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(size, generator=gen, dtype=torch.double)
    return x.requires_grad_()


@pytest.mark.parametrize('reduce', ['sum', 'mean', 'min', 'max'])
@pytest.mark.parametrize('dim', [0, 1])
def test_segments_keep_their_values_and_gain_a_derivative(reduce, dim):
    if dim and not WITH_TORCH_SCATTER:
        pytest.skip('needs torch_scatter')
    x = draw(5, 3) if dim == 0 else draw(3, 5)
    ptr = PTR.view([1] * dim + [-1])
    before = segment(x, ptr, reduce)
    with second_order_paths():
        torch.testing.assert_close(segment(x, ptr, reduce), before)
        assert gradgradcheck(lambda x: segment(x, ptr, reduce) ** 2, x)


@pytest.mark.skipif(not WITH_TORCH_SCATTER, reason='needs torch_scatter')
def test_pointers_that_cannot_be_replaced_raise():
    import torch_scatter

    ptr = torch.tensor([[0, 2, 5], [0, 1, 5]])
    with second_order_paths(), pytest.raises(RuntimeError, match='differ'):
        torch_scatter.segment_csr(draw(2, 5), ptr)


@pytest.mark.filterwarnings('ignore:Sparse')
@pytest.mark.parametrize('reduce', ['sum', 'mean', 'amax'])
def test_products_of_torch_keep_their_values(reduce):
    dense = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]).double()
    matrix, x = dense.to_sparse_csr(), draw(3, 2)
    before = torch.sparse.mm(matrix, x, reduce)
    plain = torch.sparse.mm(matrix, x)
    with second_order_paths():
        out = torch.sparse.mm(matrix, x, reduce)
        torch.testing.assert_close(out, before)
        torch.testing.assert_close(torch.sparse.mm(matrix, x), plain)
        assert gradgradcheck(
            lambda x: torch.sparse.mm(matrix, x, reduce) ** 2, x
        )


@pytest.mark.parametrize('reduce', ['sum', 'mean', 'min', 'max'])
def test_products_of_torch_sparse_keep_their_values(reduce):
    torch_sparse = pytest.importorskip('torch_sparse')
    row, col = torch.tensor([[0, 0, 2], [1, 2, 0]])
    value, x = draw(3), draw(3, 2)

    def product(value, x):
        matrix = torch_sparse.SparseTensor(
            row=row, col=col, value=value, sparse_sizes=(3, 3)
        )
        return torch_sparse.matmul(matrix, x, reduce)

    before = product(value, x)
    with second_order_paths():
        torch.testing.assert_close(product(value, x), before)
        assert gradgradcheck(lambda v, x: product(v, x) ** 2, (value, x))


def test_attention():
    q, k, v = draw(3, 1, 2, 4, 8).detach()
    q.requires_grad_()

    def attend(q):
        return F.scaled_dot_product_attention(q, k, v)

    with second_order_paths():
        assert gradgradcheck(attend, q)


def test_paths_end_with_the_block():
    x, ptr = draw(5, 3), PTR
    with pytest.raises(ZeroDivisionError), second_order_paths():
        raise ZeroDivisionError
    with second_order_paths():
        name = type(segment(x, ptr).grad_fn).__name__
    assert 'Scatter' in name
    assert type(segment(x, ptr).grad_fn).__name__ != name


def test_plain_edges_keep_their_order():
    pairs = torch.tensor([[2, 0, 1], [0, 1, 2]])
    out = plain_edges(EdgeIndex(pairs, sparse_size=(3, 3)))
    assert type(out) is torch.Tensor
    assert torch.equal(out, pairs)
    assert plain_edges('x') == 'x'
