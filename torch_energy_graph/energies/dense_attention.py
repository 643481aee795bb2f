r"""Attention energy of complete graphs, in dense products.

The energy of :mod:`.attention` where every token attends to every token of
its set (with or without itself):

.. math::
    E(g) = -\sum_h \frac{1}{\beta_h} \sum_i
           \log \sum_j \exp(\beta_h\, q_i^h \cdot k_j^h)             (1)

    -\frac{\partial E}{\partial g_n}
         = \sum_h W_Q^{h\top} \sum_j p_{nj}^h k_j^h
                + W_K^{h\top} \sum_i p_{in}^h q_i^h                  (2)

with :math:`p_{ij}^h` the softmax over j. Values are those of a complete
edge list; for sets of equal size, matrix products are the faster way. The
image model of the Energy Transformer attends in this way.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ['dense_attention_energy', 'dense_attention_energy_grad']


def dense_attention_energy(
    g: Tensor,
    weight_q: Tensor,
    weight_k: Tensor,
    beta: float | Tensor | None = None,
    self_loops: bool = True,
) -> Tensor:
    r"""Energy of every token as a query, Eq. (1).

    Args:
        g (Tensor): Activations of B sets, :math:`[B, N, C]`.
        weight_q (Tensor): :math:`W_Q`, :math:`[H, Y, C]`.
        weight_k (Tensor): :math:`W_K`, :math:`[H, Y, C]`.
        beta (float or Tensor, optional): :math:`\beta > 0`, one or
            :math:`[H]`. (default: :math:`1 / \sqrt{Y}`)
        self_loops (bool, optional): Whether a token attends to itself; a
            token that then has no other gives no energy.
            (default: :obj:`True`)

    Returns:
        Tensor: :math:`[B, N]`, float32 at least; its sum is :math:`E`.

    Raises:
        ValueError: If shapes do not fit together.
    """
    beta = _checked_beta(g, weight_q, weight_k, beta)
    dtype = torch.promote_types(g.dtype, torch.float32)
    if g.size(1) == 1 and not self_loops:
        return g.new_zeros(g.shape[:2], dtype=dtype)
    q, k = _heads(g, weight_q, weight_k, beta)
    lse = _logits(q, k, self_loops).to(dtype).logsumexp(-1)  # [B, H, N]
    per_head = beta.view(-1, 1) if isinstance(beta, Tensor) else beta
    return -(lse / per_head).sum(1)


def dense_attention_energy_grad(
    g: Tensor,
    weight_q: Tensor,
    weight_k: Tensor,
    beta: float | Tensor | None = None,
    self_loops: bool = True,
) -> Tensor:
    r"""Gradient of the summed energy, Eq. (2), :math:`[B, N, C]`.

    The arguments are those of :func:`dense_attention_energy`.
    """
    beta = _checked_beta(g, weight_q, weight_k, beta)
    if g.size(1) == 1 and not self_loops:
        return torch.zeros_like(g)
    q, k = _heads(g, weight_q, weight_k, beta)
    p = _logits(q, k, self_loops).softmax(-1)  # [B, H, N, N]
    # q holds beta: the key side divides it out again, in the weights
    pulls = torch.cat([p @ k, p.mT @ q], dim=1)  # [B, 2H, N, Y]
    scale = beta.view(-1, 1, 1) if isinstance(beta, Tensor) else beta
    back = torch.cat([weight_q, (weight_k / scale).to(weight_k.dtype)])
    pulls = pulls.transpose(1, 2).flatten(2)  # [B, N, 2HY]
    return -(pulls @ back.flatten(0, 1))


def _heads(
    g: Tensor, weight_q: Tensor, weight_k: Tensor, beta: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Queries times beta, and keys, each `[B, H, N, Y]`."""
    num_heads, head_channels, _ = weight_q.shape
    scale = beta.view(-1, 1, 1) if isinstance(beta, Tensor) else beta
    scaled = (weight_q * scale).to(weight_q.dtype)
    out = F.linear(g, torch.cat([scaled, weight_k]).flatten(0, 1))
    out = out.view(*g.shape[:2], 2 * num_heads, head_channels)
    q, k = out.transpose(1, 2).chunk(2, dim=1)
    return q, k


def _logits(q: Tensor, k: Tensor, self_loops: bool) -> Tensor:
    logits = q @ k.mT  # [B, H, N, N]
    if self_loops:
        return logits
    size = logits.size(-1)
    itself = torch.eye(size, dtype=torch.bool, device=logits.device)
    return logits.masked_fill(itself, -torch.inf)


def _checked_beta(
    g: Tensor,
    weight_q: Tensor,
    weight_k: Tensor,
    beta: float | Tensor | None,
) -> float | Tensor:
    fits = weight_q.dim() == 3 and weight_q.shape == weight_k.shape
    if not fits or g.dim() != 3 or g.size(-1) != weight_q.size(-1):
        raise ValueError(
            f'the dense attention energy expects activations [B, N, C] and '
            f'weights [H, Y, C] of equal shape (got {list(g.shape)}, '
            f'{list(weight_q.shape)} and {list(weight_k.shape)})'
        )
    return 1.0 / math.sqrt(weight_q.size(1)) if beta is None else beta
