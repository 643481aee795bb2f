import pytest
import torch

from torch_energy_graph.energies import (
    attention_energy,
    attention_energy_grad,
)
from torch_energy_graph.energies.dense_attention import (
    dense_attention_energy,
    dense_attention_energy_grad,
)
from torch_energy_graph.nn.grid import grid_edges


def draw(num_sets, num_tokens, heads=3, seed=0):
    gen = torch.Generator().manual_seed(seed)
    g = torch.randn(num_sets, num_tokens, 8, generator=gen).double()
    weights = torch.randn(2, heads, 5, 8, generator=gen).double()
    return g, *weights


@pytest.mark.parametrize('self_loops', [True, False])
@pytest.mark.parametrize('size', [1, 2, 7])
@pytest.mark.parametrize('beta', [None, 0.3, 'heads'])
def test_values_are_those_of_complete_edges(size, beta, self_loops):
    g, *weights = draw(4, size)
    beta = torch.tensor([0.2, 1.0, 3.0]) if beta == 'heads' else beta
    one = grid_edges(1, size, self_loops=self_loops)
    edges = torch.cat([one + i * size for i in range(4)], dim=1)
    flat = g.flatten(0, 1)
    args = (*weights, beta, self_loops)
    torch.testing.assert_close(
        dense_attention_energy(g, *args).flatten(),
        attention_energy(flat, *weights, edges, beta),
        rtol=1e-11,
        atol=1e-11,
    )
    torch.testing.assert_close(
        dense_attention_energy_grad(g, *args).flatten(0, 1),
        attention_energy_grad(flat, *weights, edges, beta),
        rtol=1e-11,
        atol=1e-11,
    )


@pytest.mark.parametrize('self_loops', [True, False])
def test_gradient_is_that_of_autograd(self_loops):
    g, *weights = draw(2, 6)
    g.requires_grad_()
    energy = dense_attention_energy(g, *weights, 0.7, self_loops)
    (expected,) = torch.autograd.grad(energy.sum(), g)
    found = dense_attention_energy_grad(g, *weights, 0.7, self_loops)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_two_tokens_by_hand():
    g = torch.tensor([[[1.0], [2.0]]])
    one = torch.ones(1, 1, 1)
    energy = dense_attention_energy(g, one, one, 1.0, self_loops=False)
    assert energy.tolist() == [[-2.0, -2.0]]
    grad = dense_attention_energy_grad(g, one, one, 1.0, self_loops=False)
    assert grad.tolist() == [[[-4.0], [-2.0]]]


def test_second_order():
    g, *weights = draw(2, 4)
    tensors = [t.requires_grad_() for t in (g, *weights)]
    beta = torch.tensor([0.2, 1.0, 3.0], dtype=torch.double)
    tensors.append(beta.requires_grad_())
    assert torch.autograd.gradcheck(dense_attention_energy_grad, tensors)


def test_energies_of_half_types_are_float32():
    g, *weights = (t.bfloat16() for t in draw(2, 4))
    assert dense_attention_energy(g, *weights).dtype == torch.float32
    assert dense_attention_energy_grad(g, *weights).dtype == torch.bfloat16


def test_wrong_shapes():
    g, w_q, w_k = draw(2, 4)
    for args in ((g[0], w_q, w_k), (g, w_q, w_k[:1]), (g[..., 1:], w_q, w_k)):
        with pytest.raises(ValueError, match=r'activations \[B, N, C\]'):
            dense_attention_energy(*args)
