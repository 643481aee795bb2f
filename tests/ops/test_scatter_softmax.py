import pytest
import torch

from torch_geometric.utils import softmax

from torch_energy_graph.ops import scatter_softmax


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
    assert torch.equal(by_ptr, by_index)
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
