r"""The definition of truth: energy attention in plain PyTorch.

For a query node i with in-edges e = (j, i), per head,

.. math::
    l_e = q_i^\top k_j + b_e, \qquad
    L_i = \log \sum_{e \in \mathcal{N}(i)} \exp(l_e), \qquad
    p_e = \exp(l_e - L_i)                                            (1)

    u_i = \sum_{e = (j, i)} p_e k_j, \qquad
    v_j = \sum_{e = (j, i)} p_e q_i                                  (2)

and, given upstream gradients :math:`\bar L, \bar u, \bar v`,

.. math::
    t_e = \bar u_i^\top k_j + \bar v_j^\top q_i, \qquad
    \tau_i = \bar u_i^\top u_i + q_i^\top \sum_e p_e \bar v_j - \bar L_i
                                                                     (3)

    \bar l_e = p_e (t_e - \tau_i)                                    (4)

    \bar q_i = \sum_e \bar l_e k_j + \sum_e p_e \bar v_j, \qquad
    \bar k_j = \sum_e \bar l_e q_i + \sum_e p_e \bar u_i             (5)

The inverse temperature is folded into q by the caller. Every function here
is made of differentiable operations, so derivatives of any order are right.
A node without in-edges has :math:`L = -\infty` and u = 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric.utils import scatter

__all__ = ['energy_attention', 'energy_attention_backward', 'scatter_softmax']


def energy_attention(
    q: Tensor, k: Tensor, src: Tensor, dst: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Evaluates Eq. (1) and (2) edge by edge.

    Args:
        q (Tensor): Queries times beta, :math:`[N_\mathrm{dst}, H, Y]`.
        k (Tensor): Keys, :math:`[N_\mathrm{src}, H, Y]`.
        src (LongTensor): Source of every edge, :math:`[E]`.
        dst (LongTensor): Target of every edge, :math:`[E]`.
        bias (Tensor, optional): Logit bias, :math:`[E, H]`.

    Returns:
        (Tensor, Tensor, Tensor): L :math:`[N_\mathrm{dst}, H]`, u and v.
    """
    logits = (q[dst] * k[src]).sum(-1)  # [E, H]
    if bias is not None:
        logits = logits + bias
    lse = scatter_logsumexp(logits, dst, q.size(0))  # [N_dst, H]
    p = _weights(logits, lse, dst).unsqueeze(-1)  # [E, H, 1]
    u = scatter(p * k[src], dst, dim_size=q.size(0), reduce='sum')
    v = scatter(p * q[dst], src, dim_size=k.size(0), reduce='sum')
    return lse, u, v


def energy_attention_backward(
    grads: tuple[Tensor, Tensor, Tensor],
    q: Tensor,
    k: Tensor,
    src: Tensor,
    dst: Tensor,
    bias: Tensor | None,
    lse: Tensor,
    u: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Evaluates Eq. (3) to (5) edge by edge.

    Args:
        grads (tuple): Upstream gradients of L, u and v; that of an empty row
            of L must be zero.
        q (Tensor): Queries times beta, :math:`[N_\mathrm{dst}, H, Y]`.
        k (Tensor): Keys, :math:`[N_\mathrm{src}, H, Y]`.
        src (LongTensor): Source of every edge, :math:`[E]`.
        dst (LongTensor): Target of every edge, :math:`[E]`.
        bias (Tensor, optional): Logit bias, :math:`[E, H]`.
        lse (Tensor): L of the forward pass.
        u (Tensor): u of the forward pass.

    Returns:
        (Tensor, Tensor, Tensor): Gradients of q, k and the logits
        :math:`[E, H]`, which is the gradient of the bias.
    """
    grad_lse, grad_u, grad_v = grads
    logits = (q[dst] * k[src]).sum(-1)  # [E, H]
    if bias is not None:
        logits = logits + bias
    p = _weights(logits, lse, dst)  # [E, H]
    pulled = scatter(
        p.unsqueeze(-1) * grad_v[src], dst, dim_size=q.size(0), reduce='sum'
    )  # [N_dst, H, Y]
    t = (grad_u[dst] * k[src] + grad_v[src] * q[dst]).sum(-1)  # [E, H]
    tau = (grad_u * u + q * pulled).sum(-1) - grad_lse  # [N_dst, H]
    grad_logits = p * (t - tau[dst])  # [E, H]
    w = grad_logits.unsqueeze(-1)
    grad_q = scatter(w * k[src], dst, dim_size=q.size(0), reduce='sum')
    grad_k = w * q[dst] + p.unsqueeze(-1) * grad_u[dst]  # [E, H, Y]
    grad_k = scatter(grad_k, src, dim_size=k.size(0), reduce='sum')
    return grad_q + pulled, grad_k, grad_logits


def scatter_logsumexp(src: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Log-sum-exp of every group; -inf for empty and all -inf groups."""
    group_max = _group_max(src, index, num_nodes)
    total = (src - group_max[index]).exp()
    total = scatter(total, index, dim_size=num_nodes, reduce='sum')
    empty = total == 0
    lse = group_max + total.masked_fill(empty, 1.0).log()
    return lse.masked_fill(empty, -torch.inf)


def scatter_softmax(src: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Softmax within every group; zeros where all entries are -inf."""
    lse = scatter_logsumexp(src, index, num_nodes)
    return _weights(src, lse, index)


def _group_max(src: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Largest finite entry of every group, 0 where there is none."""
    group_max = src.new_full((num_nodes, *src.shape[1:]), -torch.inf)
    index = index.view(-1, *[1] * (src.dim() - 1)).expand_as(src)
    group_max = group_max.scatter_reduce(0, index, src.detach(), 'amax')
    return group_max.masked_fill(group_max.isinf(), 0.0)


def _weights(logits: Tensor, lse: Tensor, dst: Tensor) -> Tensor:
    # where L = -inf all logits are -inf, too: exp(-inf - 0) = 0
    return (logits - lse.masked_fill(lse.isinf(), 0.0)[dst]).exp()
