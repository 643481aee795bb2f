r"""Free energy: what the logits of a classifier say about its input.

A classifier :math:`f(x) \in \mathbb{R}^K` defines a joint density
:math:`p(x, y) \propto e^{f_y(x) / T}`. Its conditional is the softmax as
before, and summing the classes out leaves the density of the input,
:math:`p(x) \propto e^{-E(x) / T}`, with

.. math::
    E(x) = -T \log \sum_k e^{f_k(x) / T}, \qquad
    \frac{\partial E}{\partial f_k} = -p_k
        = -\operatorname{softmax}(f / T)_k                          (1)

(Grathwohl et al. 2020, JEM). K labels that may hold together are K binary
classifiers with logits :math:`(f_k, 0)`:

.. math::
    E(x) = -T \sum_k \log \big( 1 + e^{f_k(x) / T} \big), \qquad
    \frac{\partial E}{\partial f_k} = -\sigma(f_k / T)               (2)

(Wu et al. 2023, GNNSafe). A constant added to all logits of (1) leaves p(y|x)
as it is and lowers E by it: the one degree of freedom that cross-entropy does
not train. Low energy means in-distribution.

For a linear head :math:`f = W h + b`, the gradient at its input is closed,

.. math::
    \frac{\partial E}{\partial h} = -W^\top p.                       (3)
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ['free_energy', 'free_energy_grad']


def free_energy(
    logits: Tensor, temperature: float = 1.0, multi_label: bool = False
) -> Tensor:
    r"""Energy of the inputs that the logits belong to, Eq. (1) or (2).

    Args:
        logits (Tensor): :math:`[N, K]`, of nodes, graphs or images.
        temperature (float, optional): :math:`T > 0`. (default: :obj:`1.0`)
        multi_label (bool, optional): Whether labels may hold together; also
            for a single logit of a binary classifier, as :math:`[N, 1]`.
            (default: :obj:`False`)

    Returns:
        Tensor: :math:`[N]`, float32 at least.

    Raises:
        ValueError: If the shape is not :math:`[N, K]` or :math:`T \le 0`.
    """
    scaled = _scaled(logits, temperature)
    if multi_label:
        # softplus is cut off at 20, which shows in float64
        return -temperature * scaled.logaddexp(scaled.new_zeros(())).sum(-1)
    return -temperature * scaled.logsumexp(-1)


def free_energy_grad(
    logits: Tensor,
    temperature: float = 1.0,
    multi_label: bool = False,
    weight: Tensor | None = None,
) -> Tensor:
    r"""Gradient of every energy at its logits, or below a linear head.

    Args:
        logits (Tensor): :math:`[N, K]`.
        temperature (float, optional): :math:`T > 0`. (default: :obj:`1.0`)
        multi_label (bool, optional): As in :func:`free_energy`.
        weight (Tensor, optional): W of the head, :math:`[K, C]`; with it,
            the gradient at the input of the head, Eq. (3).

    Returns:
        Tensor: :math:`[N, K]`, or :math:`[N, C]` with a weight. It is
        differentiable by logits and weight, without a second backward pass.

    Raises:
        ValueError: As :func:`free_energy`, and if the weight does not fit.
    """
    scaled = _scaled(logits, temperature)
    prob = scaled.sigmoid() if multi_label else scaled.softmax(-1)
    if weight is None:
        return -prob
    if weight.dim() != 2 or weight.size(0) != logits.size(1):
        raise ValueError(
            f"'free_energy_grad' expects the weight of a linear head, "
            f'[{logits.size(1)}, C] for these logits (got '
            f'{list(weight.shape)})'
        )
    return -prob @ weight.to(prob.dtype)


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    if logits.dim() != 2 or logits.size(1) == 0:
        raise ValueError(
            f'expected logits of shape [N, K], K >= 1 (got '
            f'{list(logits.shape)}); a single logit per row is '
            f"logits.unsqueeze(-1) with 'multi_label=True'"
        )
    if not 0 < temperature < float('inf'):
        raise ValueError(f"expected 'temperature' > 0 (got {temperature})")
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.to(wide) / temperature
