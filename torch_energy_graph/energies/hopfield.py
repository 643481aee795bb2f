r"""Hopfield-network energy: a node is at rest close to stored memories.

With overlaps :math:`h_\mu = \xi_\mu \cdot g_i` and a convex G,

.. math::
    E(g) = -\sum_i G(h(g_i)), \qquad
    -\frac{\partial E}{\partial g_i} = \sum_\mu \xi_\mu\, r_\mu(h(g_i)),
    \qquad r = \nabla G                                              (1)

============  =======================================  ====================
activation    G                                        r
============  =======================================  ====================
``relu``      :math:`\frac12 \sum_\mu (h_\mu)_+^2`     :math:`(h_\mu)_+`
``power``     :math:`\frac1n \sum_\mu (h_\mu)_+^n`     :math:`(h_\mu)_+^{n-1}`
``softmax``   :math:`\frac1\beta \log \sum_\mu         softmax of
              \exp(\beta h_\mu)`                       :math:`\beta h`
============  =======================================  ====================

Energy Transformer, eq. 5 and 9. Every G here is convex, so E is concave in g
and a step along the negative gradient, seen through the energy norm, lowers
it for every step size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ['HOPFIELD_ACTIVATIONS', 'hopfield_energy', 'hopfield_energy_grad']

_BLOCK = 2**16

HOPFIELD_ACTIVATIONS = ('relu', 'power', 'softmax')


def hopfield_energy(
    g: Tensor,
    memories: Tensor,
    activation: str = 'relu',
    beta: float | Tensor = 1.0,
    power: float = 3.0,
) -> Tensor:
    r"""Energy of every node, Eq. (1).

    Args:
        g (Tensor): Activations :math:`[N, C]`.
        memories (Tensor): :math:`\xi`, :math:`[K, C]`.
        activation (str, optional): :obj:`"relu"`, :obj:`"power"` or
            :obj:`"softmax"`. (default: :obj:`"relu"`)
        beta (float or Tensor, optional): Inverse temperature of
            :obj:`"softmax"`. (default: :obj:`1.0`)
        power (float, optional): n > 1 of :obj:`"power"`.
            (default: :obj:`3.0`)

    Returns:
        Tensor: :math:`[N]`, float32 at least; its sum is :math:`E`.

    Raises:
        ValueError: If the activation is unknown.
    """
    overlap = F.linear(g, memories)  # [N, K]
    dtype = torch.promote_types(overlap.dtype, torch.float32)
    overlap = overlap.to(dtype)
    if activation == 'relu':
        return -0.5 * overlap.relu().square().sum(-1)
    if activation == 'power':
        return -overlap.relu().pow(power).sum(-1) / power
    if activation == 'softmax':
        return -(beta * overlap).logsumexp(-1) / beta
    raise _unknown(activation)


def hopfield_energy_grad(
    g: Tensor,
    memories: Tensor,
    activation: str = 'relu',
    beta: float | Tensor = 1.0,
    power: float = 3.0,
) -> Tensor:
    r"""Gradient of the summed energy, Eq. (1), :math:`[N, C]`.

    The arguments are those of :func:`hopfield_energy`. Without a gradient to
    come, nodes are evaluated in blocks, so no tensor :math:`[N, K]` is born.
    """
    args = memories, activation, beta, power
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return -_pull(g, *args)
    pull = _pull(g[:_BLOCK], *args)
    out = pull.new_empty(g.shape)
    for start in range(0, g.size(0), _BLOCK):
        if start > 0:
            pull = _pull(g[start : start + _BLOCK], *args)
        torch.neg(pull, out=out[start : start + _BLOCK])
    return out


def _pull(
    g: Tensor,
    memories: Tensor,
    activation: str,
    beta: float | Tensor,
    power: float,
) -> Tensor:
    """Evaluates the negative gradient of Eq. (1)."""
    overlap = F.linear(g, memories)  # [N, K]
    if activation == 'relu':
        response = overlap.relu_()
    elif activation == 'power':
        response = overlap.relu().pow(power - 1)
    elif activation == 'softmax':
        response = (beta * overlap).softmax(-1)
    else:
        raise _unknown(activation)
    return response @ memories


def _unknown(activation: str) -> ValueError:
    return ValueError(
        f"'activation' must be one of {list(HOPFIELD_ACTIVATIONS)} "
        f'(got {activation!r})'
    )
