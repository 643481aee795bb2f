r"""DIFFormer-s with global norms, from the second moments of the input.

Queries, keys and values are affine in x, :math:`q_i^h = W_Q^h x_i + b_Q^h`,
and the norms of all queries and of all keys are two numbers. So everything
that concerns all nodes follows from the mean :math:`\bar x` of the n nodes
and their scatter matrix

.. math::
    S = \sum_i (x_i - \bar x)(x_i - \bar x)^\top                      (1)

.. math::
    \lVert Q \rVert^2 = \sum_h \mathrm{tr}(W_Q^h S W_Q^{h\top})
        + n \lVert \bar q^h \rVert^2, \qquad
    M^h = \sum_j k_j^h (v_j^h - \bar v^h)^\top
        = W_K^h S W_V^{h\top}                                         (2)

.. math::
    o_i = \frac{1}{H} \sum_h \bar v^h
        + \frac{c\, q_i^h M^h}{n (1 + c\, q_i^h \cdot \bar k^h)},
    \qquad c = 1 / (\lVert Q \rVert \lVert K \rVert)                  (3)

which is Eq. (1) of :mod:`.linear_attention` with :math:`u = q / \lVert Q
\rVert`. No query, key or value is stored, and one matrix product per head
remains of five. The backward pass reads x again, block by block, and keeps
nothing else of that size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .blocks import accumulator, place, row_blocks, store
from .linear_attention import MIN_MASS, inverse_norm

__all__ = ['gram_attention']


def gram_attention(
    x: Tensor,
    weight_q: Tensor,
    bias_q: Tensor,
    weight_k: Tensor,
    bias_k: Tensor,
    weight_v: Tensor | None,
    bias_v: Tensor | None,
) -> Tensor:
    r"""Mean over heads of DIFFormer-s with global norms, Eq. (3).

    Args:
        x (Tensor): Nodes of one graph, :math:`[N, C]`.
        weight_q (Tensor): :math:`W_Q`, :math:`[H, D, C]`.
        bias_q (Tensor): :math:`b_Q`, :math:`[H, D]`.
        weight_k (Tensor): :math:`W_K`, :math:`[H, D, C]`.
        bias_k (Tensor): :math:`b_K`, :math:`[H, D]`.
        weight_v (Tensor, optional): :math:`W_V`, :math:`[H, D, C]`; without
            it, the value of a node is x itself.
        bias_v (Tensor, optional): :math:`b_V`, :math:`[H, D]`.

    Returns:
        Tensor: :math:`[N, D]`; half types are computed in float32.
    """
    num_nodes, num_heads = max(x.size(0), 1), weight_q.size(0)
    dtype = accumulator(x)
    with torch.autocast(x.device.type, enabled=False):
        w_q, b_q = weight_q.to(dtype), bias_q.to(dtype)
        w_k, b_k = weight_k.to(dtype), bias_k.to(dtype)
        mean, scatter = _moments(x)  # [C], [C, C]
        q_mean, k_mean = w_q @ mean + b_q, w_k @ mean + b_k  # [H, D]
        spread_q, spread_k = w_q @ scatter, w_k @ scatter  # [H, D, C]
        square_q = (spread_q * w_q).sum() + num_nodes * q_mean.square().sum()
        square_k = (spread_k * w_k).sum() + num_nodes * k_mean.square().sum()
        c = inverse_norm(square_q) * inverse_norm(square_k)
        moment, v_mean = spread_k, mean
        if weight_v is not None and bias_v is not None:
            w_v = weight_v.to(dtype)
            moment = spread_k @ w_v.transpose(1, 2)  # [H, D, D]
            v_mean = (w_v @ mean + bias_v.to(dtype)).mean(0)
        moment = moment * (c / (num_nodes * num_heads))
        map_q = w_q.transpose(1, 2)  # [H, C, D]
        # per head: numerator x A + a, mass x b + b0
        return _readout(
            x,
            map_q @ moment,
            (b_q.unsqueeze(1) @ moment).squeeze(1),
            c * (map_q @ k_mean.unsqueeze(-1)).squeeze(-1),
            1 + c * (b_q * k_mean).sum(-1),
            v_mean,
        )


@torch.library.custom_op(
    'torch_energy_graph::scatter_moments', mutates_args=()
)
def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean [C] and scatter matrix [C, C], Eq. (1)."""
    dtype = accumulator(x)
    mean = x.sum(0, dtype=dtype) / max(x.size(0), 1)
    scatter = mean.new_zeros(x.size(1), x.size(1))
    for rows in row_blocks(*x.shape):
        centred = x[rows].to(dtype) - mean
        scatter.addmm_(centred.t(), centred)
    return mean, scatter


@_moments.register_fake
def _moments_fake(x: Tensor) -> tuple[Tensor, Tensor]:
    size, dtype = x.size(1), accumulator(x)
    mean = x.new_empty(size, dtype=dtype)
    return mean, x.new_empty(size, size, dtype=dtype)


@torch.library.custom_op(
    'torch_energy_graph::scatter_moments_backward', mutates_args=()
)
def _moments_backward(
    grad_mean: Tensor, grad_scatter: Tensor, x: Tensor, mean: Tensor
) -> Tensor:
    """Gradient of x [N, C]."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    for rows in row_blocks(*x.shape):
        part = _moments_gradient(
            grad_mean / x.size(0),
            grad_scatter,
            x[rows],
            mean,
            place(out, rows, mean),
        )
        store(out, rows, part)
    return out


@_moments_backward.register_fake
def _moments_backward_fake(
    grad_mean: Tensor, grad_scatter: Tensor, x: Tensor, mean: Tensor
) -> Tensor:
    return x.new_empty(x.shape)


def _moments_gradient(
    grad_mean: Tensor,
    grad_scatter: Tensor,
    x: Tensor,
    mean: Tensor,
    out: Tensor | None = None,
) -> Tensor:
    """Gradient of some rows; differentiable without `out`.

    S does not change with the mean in (1).
    """
    both = grad_scatter + grad_scatter.t()
    centred = x.to(mean.dtype) - mean
    return torch.addmm(grad_mean, centred, both, out=out).to(x.dtype)


def _moments_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[0], output[0])


def _moments_vjp(ctx: Any, grad_mean: Tensor, grad_scatter: Tensor) -> Tensor:
    x, mean = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph=True
        num_nodes = max(x.size(0), 1)
        mean = x.to(mean.dtype).sum(0) / num_nodes  # with its own gradient
        return _moments_gradient(grad_mean / num_nodes, grad_scatter, x, mean)
    return _moments_backward(grad_mean, grad_scatter, x, mean)


_moments.register_autograd(_moments_vjp, setup_context=_moments_setup)


@torch.library.custom_op('torch_energy_graph::readout', mutates_args=())
def _readout(
    x: Tensor, a: Tensor, a0: Tensor, b: Tensor, b0: Tensor, base: Tensor
) -> Tensor:
    """Sum of (x a + a0) / (x b + b0) over heads, plus base: [N, D]."""
    num_heads, channels, width = a.shape
    out = x.new_empty(x.size(0), width)
    for rows in row_blocks(x.size(0), max(channels, width)):
        nodes, total = x[rows].to(a.dtype), base
        for h in range(num_heads):
            mass = torch.addmv(b0[h], nodes, b[h])  # [R]
            share = mass.clamp_(min=MIN_MASS).reciprocal_().unsqueeze(-1)
            above = torch.addmm(a0[h], nodes, a[h])  # [R, D]
            into = place(out, rows, total) if h + 1 == num_heads else None
            total = torch.addcmul(total, above, share, out=into)
        store(out, rows, total)
    return out


@_readout.register_fake
def _readout_fake(
    x: Tensor, a: Tensor, a0: Tensor, b: Tensor, b0: Tensor, base: Tensor
) -> Tensor:
    return x.new_empty(x.size(0), a.size(2))


@torch.library.custom_op(
    'torch_energy_graph::readout_backward', mutates_args=()
)
def _readout_backward(
    grad: Tensor, x: Tensor, a: Tensor, a0: Tensor, b: Tensor, b0: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the arguments of the readout."""
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    sums = [torch.zeros_like(t) for t in (a, a0, b, b0)]
    sums.append(a.new_zeros(a.size(2)))
    for rows in row_blocks(x.size(0), max(a.shape[1:])):
        part_x, *parts = _readout_gradient(
            grad[rows], x[rows], a, a0, b, b0, place(grad_x, rows, a)
        )
        store(grad_x, rows, part_x)
        for total, part in zip(sums, parts, strict=True):
            total.add_(part)
    grad_a, grad_a0, grad_b, grad_b0, grad_base = sums
    return grad_x, grad_a, grad_a0, grad_b, grad_b0, grad_base


@_readout_backward.register_fake
def _readout_backward_fake(
    grad: Tensor, x: Tensor, a: Tensor, a0: Tensor, b: Tensor, b0: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    grads = [t.new_empty(t.shape) for t in (x, a, a0, b, b0)]
    return (*grads, a.new_empty(a.size(2)))  # type: ignore[return-value]


def _readout_gradient(
    grad: Tensor,
    x: Tensor,
    a: Tensor,
    a0: Tensor,
    b: Tensor,
    b0: Tensor,
    out: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Gradients for some rows; differentiable without `out`."""
    nodes, grad = x.to(a.dtype), grad.to(a.dtype)
    heads, total = [], torch.zeros_like(nodes[:1])
    for h in range(a.size(0)):
        mass = torch.addmv(b0[h], nodes, b[h])  # [R]
        share = mass.clamp(min=MIN_MASS).reciprocal()
        scaled = share.unsqueeze(-1) * grad  # [R, D]
        pulled = scaled @ a[h].t()  # [R, C]
        along = torch.addmv((pulled * nodes).sum(-1), scaled, a0[h])
        slope = -along * share * (mass > MIN_MASS)  # of the mass, [R]
        total = pulled if h == 0 else total + pulled
        into = out if h + 1 == a.size(0) else None
        total = torch.addcmul(total, slope.unsqueeze(-1), b[h], out=into)
        part = nodes.t() @ scaled, scaled.sum(0), nodes.t() @ slope
        heads.append((*part, slope.sum()))
    sums = [torch.stack(part) for part in zip(*heads, strict=True)]
    return total.to(x.dtype), *sums, grad.sum(0)


def _readout_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])


def _readout_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    saved = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph=True
        return _readout_gradient(grad, *saved)
    return _readout_backward(grad, *saved)


_readout.register_autograd(_readout_vjp, setup_context=_readout_setup)
