r"""The certified step: how far a node may move so that the energy falls.

With :math:`v_i = \partial E / \partial g_i`, the norm's :math:`\sigma_i` and
slope :math:`\gamma`, and a curvature bound :math:`L_i` such that
:math:`\delta^\top \nabla^2 E\, \delta \le \sum_i L_i |\delta_i|^2`,

.. math::
    \alpha_i = \frac{2 \sigma_i}
                    {\gamma L_i + 2 |v_i| / \sqrt{C}}                (1)

makes :math:`x_i \leftarrow x_i - \alpha_i v_i` lower E. For the attention
energy only its bilinear part can curve upwards, and

.. math::
    L_i = \sum_h \lVert W_K^{h\top} W_Q^h \rVert_2
          \big( \mathbb{1}[i \text{ has an in-edge}]
                + \mathrm{outdeg}(i) \big)                           (2)

bounds it for every softmax weight. A concave energy (memories) adds nothing.
The step of a node depends on that node alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ['attention_curvature', 'safe_step_size']


def safe_step_size(
    sigma: Tensor, gamma: float | Tensor, curvature: Tensor, grad: Tensor
) -> Tensor:
    r"""Largest certified step of every node, Eq. (1); detached.

    Args:
        sigma (Tensor): Standard deviation in the energy norm, :math:`[N]`.
        gamma (float or Tensor): Slope of the energy norm.
        curvature (Tensor): :math:`L`, :math:`[N]`.
        grad (Tensor): :math:`v = \partial E / \partial g`, :math:`[N, C]`
            (its sign does not matter).

    Returns:
        Tensor: :math:`\alpha`, :math:`[N]`; zero where :math:`L_i = v_i = 0`,
        where nothing moves.
    """
    dtype = torch.promote_types(sigma.dtype, torch.float32)
    grad_norm = grad.detach().to(dtype).norm(dim=-1)  # [N]
    pull = gamma * curvature.to(dtype) + 2 * grad_norm / grad.size(-1) ** 0.5
    floor = torch.finfo(dtype).eps ** 4  # below it the quotient overflows
    step = 2 * sigma.to(dtype) / pull.clamp(min=floor)
    return step.masked_fill(pull < floor, 0.0).detach()


def attention_curvature(
    weight_q: Tensor, weight_k: Tensor, in_degree: Tensor, out_degree: Tensor
) -> Tensor:
    r"""Curvature bound of the attention energy, Eq. (2); detached.

    Args:
        weight_q (Tensor): :math:`W_Q`, :math:`[H, Y, C]` or
            :math:`[R, H, Y, C]`.
        weight_k (Tensor): :math:`W_K`, of the same shape.
        in_degree (Tensor): In-edges of every node (of every relation, in
            lifted order), :math:`[N R]`.
        out_degree (Tensor): Out-edges, :math:`[N R]`.

    Returns:
        Tensor: :math:`L`, :math:`[N]`; relations add up.
    """
    # a bound must not be rounded: half types do not do
    full = torch.autocast(weight_q.device.type, enabled=False)
    with torch.no_grad(), full:
        dtype = torch.promote_types(weight_q.dtype, torch.float32)
        norm = _product_norm(weight_q.to(dtype), weight_k.to(dtype))
        norm = norm.sum(-1)  # [R] or []
        reach = (in_degree > 0).to(dtype) + out_degree.to(dtype)  # [N * R]
        return (reach.view(-1, max(norm.numel(), 1)) * norm).sum(-1)


def _product_norm(weight_q: Tensor, weight_k: Tensor) -> Tensor:
    """Spectral norm of `W_K^T W_Q` for every head, from small factors."""
    _, r_q = torch.linalg.qr(weight_q.mT)  # [..., min(C, Y), Y]
    _, r_k = torch.linalg.qr(weight_k.mT)
    return torch.linalg.matrix_norm(r_k @ r_q.mT, ord=2)
