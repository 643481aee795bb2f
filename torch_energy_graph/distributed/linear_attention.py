r"""DIFFormer-s attention over nodes that live on different ranks.

Eq. (1) of :mod:`torch_energy_graph.ops.linear_attention` reads the other
nodes through sums alone. Two all-reduces carry them: first
:math:`\sum v`, :math:`\sum \kappa`, the squared norms of queries and keys and
the number of nodes, then, with the mean value known,
:math:`M = \sum \kappa (v - \bar v)^\top`. Together these are
:math:`H (D D_v + D + D_v) + 3` numbers, whatever the number of nodes is, and
every rank gets what one process with all nodes would get.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_energy_graph.distributed.collectives import Group, all_reduce_sum
from torch_energy_graph.ops.linear_attention import (
    MIN_MASS,
    check_normalize,
    inverse_norm,
)

__all__ = ['sharded_linear_attention']


def sharded_linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    normalize: str = 'node',
    group: Group = None,
) -> Tensor:
    r"""All-pair attention over the nodes of all ranks, one graph.

    Every rank calls it with its own nodes, a rank without nodes with empty
    tensors. Differentiable any number of times, in the sense of
    :mod:`torch_energy_graph.distributed.collectives`: gradients are those of
    the losses of all ranks together.

    Args:
        q (Tensor): Queries of the owned nodes :math:`[N_r, H, D]`.
        k (Tensor): Keys :math:`[N_r, H, D]`.
        v (Tensor): Values :math:`[N_r, H, D_v]`, or one for all heads,
            :math:`[N_r, 1, D_v]`.
        normalize (str, optional): :obj:`"node"` or :obj:`"global"`, as in
            :func:`torch_energy_graph.ops.linear_attention`; the norms of
            :obj:`"global"` are over all ranks. (default: :obj:`"node"`)
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)

    Returns:
        Tensor: :math:`[N_r, H, D_v]`; half types are computed and reduced
        in float32.

    Raises:
        ValueError: If shapes do not fit together.
    """
    check_normalize(normalize)
    _check_shapes(q, k, v)
    dtype = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        q_, k_, v_ = (t.to(dtype) for t in (q, k, v))
        return _attend(q_, k_, v_, normalize, group).to(v.dtype)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, normalize: str, group: Group
) -> Tensor:
    v = v.expand(*q.shape[:2], -1)  # [N_r, H, Dv]
    if normalize == 'node':
        q = q * inverse_norm(q.square().sum(-1, keepdim=True))
        k = k * inverse_norm(k.square().sum(-1, keepdim=True))
    v_sum, k_sum, scalars = _reduce_together(
        [
            v.sum(0),
            k.sum(0),
            torch.stack(
                [q.square().sum(), k.square().sum(), q.new_tensor(q.size(0))]
            ),
        ],
        group,
    )
    q_square, k_square, count = scalars
    if normalize == 'global':
        q = q * (inverse_norm(q_square) * inverse_norm(k_square))
    count = count.detach().clamp(min=1)
    v_mean, k_mean = v_sum / count, k_sum / count  # [H, Dv], [H, D]
    moment = torch.einsum('nhd,nhe->hde', k, v - v_mean)
    moment = all_reduce_sum(moment, group) / count  # M / n
    mass = 1 + torch.einsum('nhd,hd->nh', q, k_mean)
    out = torch.einsum('nhd,hde->nhe', q, moment)
    return v_mean + out / mass.clamp(min=MIN_MASS).unsqueeze(-1)


def _reduce_together(parts: list[Tensor], group: Group) -> list[Tensor]:
    """Sums over ranks of several tensors in one message."""
    flat = torch.cat([part.flatten() for part in parts])
    sums = all_reduce_sum(flat, group).split([p.numel() for p in parts])
    return [s.view_as(p) for s, p in zip(sums, parts, strict=True)]


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    fits = q.dim() == 3 and q.shape == k.shape and v.dim() == 3
    if not fits or v.shape[:2] not in (q.shape[:2], (q.size(0), 1)):
        raise ValueError(
            f"'sharded_linear_attention' expects q and k of shape "
            f'[N_r, H, D], and v of shape [N_r, H, D_v] or [N_r, 1, D_v] '
            f'(got {list(q.shape)}, {list(k.shape)} and {list(v.shape)})'
        )
