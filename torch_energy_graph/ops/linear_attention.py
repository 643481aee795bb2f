r"""All-pair attention of DIFFormer-s in linear time, per graph of a batch.

With directions :math:`u_i, \kappa_j` (queries and keys, normalised),
n nodes in the graph of node i and :math:`\bar v` their mean value,

.. math::
    o_i = \frac{\sum_j (1 + u_i \cdot \kappa_j)\, v_j}
               {\sum_j (1 + u_i \cdot \kappa_j)}
        = \bar v + \frac{u_i M}{n (1 + u_i \cdot \bar\kappa)}, \qquad
    M = \sum_j \kappa_j (v_j - \bar v)^\top                         (1)

The second form is the same number. It keeps what distinguishes the nodes
apart from the mean, which is larger by orders of magnitude: in low precision
the first form loses it (16-bit outputs of all nodes are equal from some 1,000
nodes on), the second does not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import accumulator
from .ragged import Tiles, batch_of, cut

__all__ = [
    'MIN_MASS',
    'check_normalize',
    'inverse_norm',
    'linear_attention',
    'linear_attention_weights',
]

# Least mean weight of a row. Only a node whose direction is opposed to all
# keys comes below, where gradients of the quotient would explode.
MIN_MASS = 1e-6
_MIN_SQUARE = 1e-24  # of a norm: what is shorter has no direction


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    batch_size: int | None = None,
    normalize: str = 'node',
) -> Tensor:
    r"""DIFFormer-s attention, Eq. (1), in :math:`O(N H D^2)`.

    Every graph of a batch gets exactly what it gets alone. A zero query or
    key has no direction: it has weight 1 with all nodes, and no gradient.
    Differentiable any number of times.

    Args:
        q (Tensor): Queries :math:`[N, H, D]`, not normalised.
        k (Tensor): Keys :math:`[N, H, D]`.
        v (Tensor): Values :math:`[N, H, D_v]`, or one for all heads,
            :math:`[N, 1, D_v]`.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`, in
            any order. (default: :obj:`None`, one graph)
        ptr (LongTensor, optional): Boundaries of sorted graphs,
            :math:`[B + 1]`; an alternative to :obj:`batch`.
        batch_size (int, optional): Number of graphs; without it, the largest
            entry of :obj:`batch` is read from the device.
        normalize (str, optional): :obj:`"node"` divides every query and key
            by its norm (the paper), :obj:`"global"` by the norm of all
            queries or keys of the graph, heads included (the released code).
            (default: :obj:`"node"`)

    Returns:
        Tensor: :math:`[N, H, D_v]`; half types are computed in float32.

    Raises:
        ValueError: If shapes do not fit together.
    """
    check_normalize(normalize)
    _check_shapes(q, k, v)
    batch, num_graphs = batch_of(q.size(0), batch, ptr, batch_size)
    with torch.autocast(q.device.type, enabled=False):
        unit, key = _directions(q, k, batch, num_graphs, normalize)
        values = v.to(unit.dtype).expand(-1, q.size(1), -1)
        if batch is None:
            out = _attend_alone(unit, key, values)
        else:
            out = _attend_in_tiles(unit, key, values, cut(batch, num_graphs))
    return out.to(v.dtype)


def linear_attention_weights(
    q: Tensor,
    k: Tensor,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    batch_size: int | None = None,
    normalize: str = 'node',
) -> Tensor:
    r"""The weights of :func:`linear_attention`, dense.

    Args:
        q (Tensor): Queries :math:`[N, H, D]`.
        k (Tensor): Keys :math:`[N, H, D]`.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`.
        ptr (LongTensor, optional): Boundaries of sorted graphs.
        batch_size (int, optional): Number of graphs.
        normalize (str, optional): :obj:`"node"` or :obj:`"global"`.

    Returns:
        Tensor: :math:`[N, N, H]`, target i first, zero between different
        graphs; rows sum to 1.
    """
    check_normalize(normalize)
    batch, num_graphs = batch_of(q.size(0), batch, ptr, batch_size)
    with torch.autocast(q.device.type, enabled=False):
        unit, key = _directions(q, k, batch, num_graphs, normalize)
        if batch is None:
            batch = torch.zeros(q.size(0), dtype=torch.long, device=q.device)
        same = (batch[:, None] == batch).to(unit.dtype)  # [N, N]
        mean = same / same.sum(-1, keepdim=True)  # rows of 1 / n
        k_mean = torch.einsum('ij,jhd->ihd', mean, key)
        level = (unit * k_mean).sum(-1).unsqueeze(1)  # [N, 1, H]
        out = torch.einsum('ihd,jhd->ijh', unit, key) - level
        out = 1 + out / (1 + level).clamp(min=MIN_MASS)
        out = mean.unsqueeze(-1) * out
    return out.to(q.dtype)


def _directions(
    q: Tensor,
    k: Tensor,
    batch: Tensor | None,
    num_graphs: int,
    normalize: str,
) -> tuple[Tensor, Tensor]:
    """Normalised queries and keys, [N, H, D]."""

    def direction(nodes: Tensor) -> Tensor:
        nodes = nodes.to(accumulator(nodes))
        square = nodes.square().sum(-1, keepdim=True)  # [N, H, 1]
        if normalize == 'global':
            square = square.sum(1, keepdim=True)  # [N, 1, 1]
            if batch is None:
                square = square.sum(0, keepdim=True)
            else:
                total = square.new_zeros(num_graphs, 1, 1)
                square = total.index_add(0, batch, square)[batch]
        return nodes * inverse_norm(square)

    return direction(q), direction(k)


def _attend_alone(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Eq. (1) on one graph, [N, H, D]."""
    num_nodes = max(q.size(0), 1)
    v_mean, k_mean = v.sum(0) / num_nodes, k.sum(0) / num_nodes  # [H, D]
    moment = torch.einsum('nhd,nhe->hde', k, v - v_mean) / num_nodes
    mass = 1 + (q * k_mean).sum(-1, keepdim=True)
    out = torch.einsum('nhd,hde->nhe', q, moment)
    return v_mean + out / mass.clamp(min=MIN_MASS)


def _attend_in_tiles(q: Tensor, k: Tensor, v: Tensor, tiles: Tiles) -> Tensor:
    """Eq. (1) on the graphs of a batch, [N, H, D]."""
    sizes = tiles.count.clamp(min=1).to(q.dtype)[:, None, None]  # [B, 1, 1]
    q, k, v = tiles.pack(q), tiles.pack(k), tiles.pack(v)  # [L, T, H, D]
    v_mean = tiles.spread(tiles.total(v.sum(1)) / sizes)[:, None]
    k_mean = tiles.spread(tiles.total(k.sum(1)) / sizes)[:, None]
    # rows without a node have no key, so their values do not matter
    moment = torch.einsum('lthd,lthe->lhde', k, v - v_mean)
    moment = tiles.spread(tiles.total(moment) / sizes[..., None])
    mass = 1 + (q * k_mean).sum(-1, keepdim=True)
    out = torch.einsum('lthd,lhde->lthe', q, moment)
    return tiles.unpack(v_mean + out / mass.clamp(min=MIN_MASS))


def inverse_norm(square: Tensor) -> Tensor:
    r"""From a squared norm to one over the norm, zero for a zero vector."""
    known = square > _MIN_SQUARE
    return torch.where(known, square.where(known, 1.0).rsqrt(), 0.0)


def check_normalize(normalize: str) -> None:
    """Raises a ValueError unless it is a normalisation."""
    if normalize not in ('node', 'global'):
        raise ValueError(
            f"'normalize' must be 'node' or 'global' (got {normalize!r})"
        )


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    fits = q.dim() == 3 and q.shape == k.shape and v.dim() == 3
    if not fits or v.shape[:2] not in (q.shape[:2], (q.size(0), 1)):
        raise ValueError(
            f"'linear_attention' expects q and k of shape [N, H, D], and v "
            f'of shape [N, H, D_v] or [N, 1, D_v] (got {list(q.shape)}, '
            f'{list(k.shape)} and {list(v.shape)})'
        )
