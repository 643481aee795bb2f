r"""DIFFormer-s with a norm per node, without values and stored queries.

.. math::
    o_i = \frac{1}{H} \sum_h \bar v^h
        + \frac{u_i^h M^h}{n\, (1 + u_i^h \cdot \bar\kappa^h)}, \qquad
    M^h = \Big( \sum_j \kappa_j^h (x_j - \bar x)^\top \Big) W_V^{h\top} (1)

with :math:`u = q / \lVert q \rVert` and :math:`\kappa = k / \lVert k
\rVert`, is Eq. (1) of :mod:`.linear_attention`: values are affine in x, so
their moments follow from those of x. Queries and keys are not linear in x;
they are computed in blocks, once for the moments and once for the output,
and again in the backward pass, which reads nothing but x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .blocks import accumulator, row_blocks
from .linear_attention import MIN_MASS, inverse_norm

__all__ = ['unit_attention']


def unit_attention(
    x: Tensor,
    weight_q: Tensor,
    bias_q: Tensor,
    weight_k: Tensor,
    bias_k: Tensor,
    weight_v: Tensor | None,
    bias_v: Tensor | None,
) -> Tensor:
    r"""Mean over heads of DIFFormer-s with a norm per node, Eq. (1).

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
    dtype, num_heads = accumulator(x), weight_q.size(0)
    with torch.autocast(x.device.type, enabled=False):
        moment, k_mean, mean = _moments(
            x, weight_k.to(dtype), bias_k.to(dtype)
        )
        v_mean = mean
        if weight_v is not None and bias_v is not None:
            w_v = weight_v.to(dtype)
            moment = moment @ w_v.transpose(1, 2)  # [H, D, D]
            v_mean = (w_v @ mean + bias_v.to(dtype)).mean(0)
        moment = moment / (num_heads * max(x.size(0), 1))
        w_q, b_q = weight_q.to(dtype), bias_q.to(dtype)
        return _readout(x, w_q, b_q, moment, k_mean, v_mean)


@torch.library.custom_op('torch_energy_graph::unit_moments', mutates_args=())
def _moments(
    x: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum of k (x - mean)^T, [H, D, C], and the means of k and of x."""
    num_nodes = max(x.size(0), 1)
    mean = x.sum(0, dtype=weight.dtype) / num_nodes
    moment, k_sum = torch.zeros_like(weight), torch.zeros_like(bias)
    for rows in row_blocks(x.size(0), bias.numel()):
        nodes = x[rows].to(weight.dtype)
        unit, _ = _directions(nodes, weight, bias)  # [R, H, D]
        moment.flatten(0, 1).addmm_(unit.flatten(1).t(), nodes - mean)
        k_sum.add_(unit.sum(0))
    return moment, k_sum / num_nodes, mean


@_moments.register_fake
def _moments_fake(
    x: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    mean = weight.new_empty(x.size(1))
    return weight.new_empty(weight.shape), bias.new_empty(bias.shape), mean


@torch.library.custom_op(
    'torch_energy_graph::unit_moments_backward', mutates_args=()
)
def _moments_backward(
    grad_moment: Tensor,
    grad_k: Tensor,
    grad_mean: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    k_mean: Tensor,
    mean: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, the weight and the bias."""
    grads = grad_moment, grad_k / x.size(0), grad_mean / x.size(0)
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(bias)
    for rows in row_blocks(x.size(0), bias.numel()):
        grad_x[rows], part_weight, part_bias = _moments_gradient(
            *grads, x[rows], weight, bias, k_mean, mean
        )
        grad_weight.add_(part_weight)
        grad_bias.add_(part_bias)
    return grad_x, grad_weight, grad_bias


@_moments_backward.register_fake
def _moments_backward_fake(
    grad_moment: Tensor,
    grad_k: Tensor,
    grad_mean: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    k_mean: Tensor,
    mean: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    out = [t.new_empty(t.shape) for t in (x, weight, bias)]
    return out[0], out[1], out[2]


def _moments_gradient(
    grad_moment: Tensor,
    grad_k: Tensor,
    grad_mean: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    k_mean: Tensor,
    mean: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for some rows, differentiable; those of means are per row."""
    nodes = x.to(weight.dtype)
    unit, inverse = _directions(nodes, weight, bias)
    flat = grad_moment.flatten(0, 1)  # [H * D, C]
    pulled = torch.addmm(grad_k.flatten(), nodes - mean, flat.t())
    pulled = _through_norm(pulled.view_as(unit), unit, inverse).flatten(1)
    grad_x = torch.addmm(grad_mean, pulled, weight.flatten(0, 1))
    grad_x = torch.addmm(grad_x, (unit - k_mean).flatten(1), flat)
    grad_weight = (pulled.t() @ nodes).view_as(weight)
    return grad_x.to(x.dtype), grad_weight, pulled.sum(0).view_as(bias)


def _moments_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs, *output[1:])


def _moments_vjp(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
    x, weight, bias, k_mean, mean = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph=True
        # the means with gradients of their own
        n, nodes = max(x.size(0), 1), x.to(weight.dtype)
        means = (
            _directions(nodes, weight, bias)[0].sum(0) / n,
            nodes.sum(0) / n,
        )
        grads = grads[0], grads[1] / n, grads[2] / n
        return _moments_gradient(*grads, x, weight, bias, *means)
    return _moments_backward(*grads, x, weight, bias, k_mean, mean)


_moments.register_autograd(_moments_vjp, setup_context=_moments_setup)


@torch.library.custom_op('torch_energy_graph::unit_readout', mutates_args=())
def _readout(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    moment: Tensor,
    k_mean: Tensor,
    base: Tensor,
) -> Tensor:
    """Sum of u M / (1 + u k_mean) over heads, plus base: [N, D]."""
    out = x.new_empty(x.size(0), moment.size(2))
    flat = moment.flatten(0, 1)
    for rows in row_blocks(x.size(0), bias.numel()):
        unit, _ = _directions(x[rows].to(weight.dtype), weight, bias)
        mass = 1 + (unit * k_mean).sum(-1, keepdim=True)
        unit = unit.div_(mass.clamp_(min=MIN_MASS))
        out[rows] = torch.addmm(base, unit.flatten(1), flat)
    return out


@_readout.register_fake
def _readout_fake(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    moment: Tensor,
    k_mean: Tensor,
    base: Tensor,
) -> Tensor:
    return x.new_empty(x.size(0), moment.size(2))


@torch.library.custom_op(
    'torch_energy_graph::unit_readout_backward', mutates_args=()
)
def _readout_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    moment: Tensor,
    k_mean: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the arguments of the readout."""
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    sums = [torch.zeros_like(t) for t in (weight, bias, moment, k_mean)]
    sums.append(moment.new_zeros(moment.size(2)))
    for rows in row_blocks(x.size(0), bias.numel()):
        grad_x[rows], *parts = _readout_gradient(
            grad[rows], x[rows], weight, bias, moment, k_mean
        )
        for total, part in zip(sums, parts, strict=True):
            total.add_(part)
    return grad_x, sums[0], sums[1], sums[2], sums[3], sums[4]


@_readout_backward.register_fake
def _readout_backward_fake(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    moment: Tensor,
    k_mean: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    out = [t.new_empty(t.shape) for t in (x, weight, bias, moment, k_mean)]
    base = moment.new_empty(moment.size(2))
    return out[0], out[1], out[2], out[3], out[4], base


def _readout_gradient(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    moment: Tensor,
    k_mean: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients for some rows, differentiable."""
    nodes, grad = x.to(weight.dtype), grad.to(weight.dtype)
    unit, inverse = _directions(nodes, weight, bias)  # [R, H, D], [R, H, 1]
    mass = 1 + (unit * k_mean).sum(-1, keepdim=True)  # [R, H, 1]
    share = mass.clamp(min=MIN_MASS).reciprocal()
    pulled = (grad @ moment.flatten(0, 1).t()).view_as(unit)  # M g
    slope = (pulled * unit).sum(-1, keepdim=True) * share.square()
    slope = -slope * (mass > MIN_MASS)  # of the mass
    grad_unit = torch.addcmul(pulled * share, slope, k_mean)
    grad_q = _through_norm(grad_unit, unit, inverse).flatten(1)
    return (
        (grad_q @ weight.flatten(0, 1)).to(x.dtype),
        (grad_q.t() @ nodes).view_as(weight),
        grad_q.sum(0).view_as(bias),
        ((unit * share).flatten(1).t() @ grad).view_as(moment),
        (slope * unit).sum(0),
        grad.sum(0),
    )


def _readout_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])


def _readout_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    saved = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph=True
        return _readout_gradient(grad, *saved)
    return _readout_backward(grad, *saved)


_readout.register_autograd(_readout_vjp, setup_context=_readout_setup)


def _directions(
    nodes: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Directions of W x + b, [R, H, D], and one over their norms."""
    out = torch.addmm(bias.flatten(), nodes, weight.flatten(0, 1).t())
    out = out.view(-1, *bias.shape)
    inverse = inverse_norm(out.square().sum(-1, keepdim=True))
    return out * inverse, inverse


def _through_norm(grad: Tensor, unit: Tensor, inverse: Tensor) -> Tensor:
    """From the gradient of a direction to that of the vector."""
    along = (grad * unit).sum(-1, keepdim=True)
    return (grad - along * unit) * inverse
