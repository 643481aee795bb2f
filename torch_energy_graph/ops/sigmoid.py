r"""All-pair attention of DIFFormer-a, block by block: memory grows with N.

.. math::
    o_i = \sum_j P_{ij} v_j, \qquad
    P_{ij} = \frac{\sigma(l_{ij})}{\sum_{j'} \sigma(l_{ij'})}, \qquad
    l_{ij} = q_i \cdot k_j                                            (1)

over the nodes j of the graph of i. Time is :math:`O(N^2 D)`. The backward
pass computes the blocks of P again:

.. math::
    \dot l_{ij} = P_{ij} (1 - \sigma(l_{ij}))
                  (g_i \cdot v_j - g_i \cdot o_i), \qquad
    \dot q_i = \sum_j \dot l_{ij} k_j, \quad
    \dot k_j = \sum_i \dot l_{ij} q_i, \quad
    \dot v_j = \sum_i P_{ij} g_i                                      (2)

Where all logits of a row are far below zero, every sigmoid underflows; so
weights are taken relative to :math:`e^{m_i}, m_i = \min(\max_j l_{ij}, 0)`:

.. math::
    \sigma(l_{ij})\, e^{-m_i} = 1 / (e^{m_i} + e^{m_i - l_{ij}})      (3)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .blocks import accumulator
from .ragged import batch_of

__all__ = ['sigmoid_attention', 'sigmoid_attention_weights']

_BLOCK = 512  # rows, and columns, of a block


def sigmoid_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""DIFFormer-a attention, Eq. (1), without a tensor of size N x N.

    Every graph of a batch gets exactly what it gets alone. Second
    derivatives are exact, too, but hold all pairs in memory.

    Args:
        q (Tensor): Queries :math:`[N, H, D]`.
        k (Tensor): Keys :math:`[N, H, D]`.
        v (Tensor): Values :math:`[N, H, D_v]`, or one for all heads,
            :math:`[N, 1, D_v]`.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`, in
            any order. (default: :obj:`None`, one graph)
        ptr (LongTensor, optional): Boundaries of sorted graphs,
            :math:`[B + 1]`; an alternative to :obj:`batch`.
        batch_size (int, optional): Number of graphs; without it, the largest
            entry of :obj:`batch` is read from the device.

    Returns:
        Tensor: :math:`[N, H, D_v]`; half types are computed in float32.

    Raises:
        ValueError: If shapes do not fit together.
    """
    _check_shapes(q, k, v)
    batch, _ = batch_of(q.size(0), batch, ptr, batch_size)
    dtype = accumulator(q)
    with torch.autocast(q.device.type, enabled=False):
        v_ = v.to(dtype).expand(-1, q.size(1), -1)
        # heads first, [H, N, D]
        heads = [t.to(dtype).transpose(0, 1) for t in (q, k, v_)]
        if batch is None:
            out, _, _ = _attention(*heads, None)
        else:
            order = torch.argsort(batch, stable=True)
            heads = [t.index_select(1, order) for t in heads]
            out, _, _ = _attention(*heads, batch[order])
            out = torch.empty_like(out).index_copy(1, order, out)
    return out.transpose(0, 1).to(v.dtype)


def sigmoid_attention_weights(
    q: Tensor,
    k: Tensor,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""The weights P of Eq. (1), dense.

    Args:
        q (Tensor): Queries :math:`[N, H, D]`.
        k (Tensor): Keys :math:`[N, H, D]`.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`.
        ptr (LongTensor, optional): Boundaries of sorted graphs.
        batch_size (int, optional): Number of graphs.

    Returns:
        Tensor: :math:`[N, N, H]`, target i first, zero between different
        graphs; rows sum to 1.
    """
    batch, _ = batch_of(q.size(0), batch, ptr, batch_size)
    dtype = accumulator(q)
    with torch.autocast(q.device.type, enabled=False):
        q_, k_ = (t.to(dtype).transpose(0, 1) for t in (q, k))
        return _weights(q_, k_, batch).permute(1, 2, 0).to(q.dtype)


def _weights(q: Tensor, k: Tensor, batch: Tensor | None) -> Tensor:
    """P of all pairs, [H, N, N], differentiable."""
    logits = q @ k.transpose(1, 2)
    if batch is not None:
        apart = batch[:, None] != batch
        logits = logits.masked_fill(apart, -torch.inf)
    if logits.size(-1) == 0:
        return logits
    top = logits.detach().amax(-1, keepdim=True).clamp(max=0.0)
    weights = (top.exp() + (top - logits).exp()).reciprocal()
    return weights / weights.sum(-1, keepdim=True)


@torch.library.custom_op(
    'torch_energy_graph::sigmoid_attention', mutates_args=()
)
def _attention(
    q: Tensor, k: Tensor, v: Tensor, batch: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Output [H, N, Dv], mass and shift [H, N] of Eq. (3); sorted batch."""
    out = torch.empty_like(v, memory_format=torch.contiguous_format)
    mass, shift = (q.new_empty(q.shape[:2]) for _ in range(2))
    for rows, blocks in _pairs(q.size(1), batch):
        q_rows = q[:, rows]
        # finite: a row may see no node of its graph in the first blocks
        lowest = torch.finfo(q.dtype).min
        top = q.new_full(q_rows.shape[:2], lowest)  # [H, R]
        total = torch.zeros_like(top)
        acc = v.new_zeros(*q_rows.shape[:2], v.size(2))  # [H, R, Dv]
        for cols in blocks:
            logits = _logits(q_rows, k[:, cols], rows, cols, batch)
            new = torch.maximum(top, logits.amax(-1)).clamp_(max=0.0)
            weights = _relative(logits, new)  # [H, R, C]
            factor = (top - new).exp_()
            total.mul_(factor).add_(weights.sum(-1))
            acc.mul_(factor[..., None]).add_(weights @ v[:, cols])
            top = new
        out[:, rows] = acc / total[..., None]
        mass[:, rows], shift[:, rows] = total, top
    return out, mass, shift


@_attention.register_fake
def _attention_fake(
    q: Tensor, k: Tensor, v: Tensor, batch: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    stats = q.new_empty(q.shape[:2]), q.new_empty(q.shape[:2])
    return v.new_empty(v.shape), *stats


@torch.library.custom_op(
    'torch_energy_graph::sigmoid_attention_backward', mutates_args=()
)
def _attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    mass: Tensor,
    shift: Tensor,
    batch: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, Eq. (2)."""
    grad_q, grad_k, grad_v = (
        torch.zeros_like(t, memory_format=torch.contiguous_format)
        for t in (q, k, v)
    )
    delta = (grad * out).sum(-1)  # [H, N]
    for rows, blocks in _pairs(q.size(1), batch):
        q_rows, g_rows = q[:, rows], grad[:, rows]
        for cols in blocks:
            logits = _logits(q_rows, k[:, cols], rows, cols, batch)
            weights = _relative(logits, shift[:, rows])
            weights = weights.div_(mass[:, rows, None])  # P, [H, R, C]
            grad_v[:, cols] += weights.transpose(1, 2) @ g_rows
            pull = g_rows @ v[:, cols].transpose(1, 2)
            pull = pull.sub_(delta[:, rows, None]).mul_(weights)
            pull = pull.mul_(logits.neg_().sigmoid_())  # 1 - sigmoid(l)
            grad_q[:, rows] += pull @ k[:, cols]
            grad_k[:, cols] += pull.transpose(1, 2) @ q_rows
    return grad_q, grad_k, grad_v


@_attention_backward.register_fake
def _attention_backward_fake(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    mass: Tensor,
    shift: Tensor,
    batch: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    q, k, v, batch = inputs
    ctx.has_batch = batch is not None
    ctx.mark_non_differentiable(*output[1:])
    saved = (q, k, v, *output)
    ctx.save_for_backward(*saved, *([batch] if ctx.has_batch else []))


def _backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    q, k, v, out, mass, shift, *rest = ctx.saved_tensors
    batch = rest[0] if ctx.has_batch else None
    if torch.is_grad_enabled():  # create_graph=True
        return *_dense_backward(grad, q, k, v, batch), None
    grads = _attention_backward(grad, q, k, v, out, mass, shift, batch)
    return *grads, None


def _dense_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, batch: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Eq. (2) on all pairs at once, differentiable."""
    weights = _weights(q, k, batch)
    pull = grad @ v.transpose(1, 2)
    delta = (weights * pull).sum(-1, keepdim=True)
    pull = weights * (pull - delta) * torch.sigmoid(-q @ k.transpose(1, 2))
    grad_q, grad_k = pull @ k, pull.transpose(1, 2) @ q
    return grad_q, grad_k, weights.transpose(1, 2) @ grad


_attention.register_autograd(_backward, setup_context=_setup_context)


def _pairs(
    num_nodes: int, batch: Tensor | None
) -> Iterator[tuple[slice, list[slice]]]:
    """Blocks of rows, each with the blocks of columns of its graphs."""
    starts = range(0, num_nodes, _BLOCK)
    if not len(starts):
        return
    low, high = [0] * len(starts), [num_nodes] * len(starts)
    if batch is not None:
        first = batch[::_BLOCK].contiguous()
        last = batch[[min(s + _BLOCK, num_nodes) - 1 for s in starts]]
        low = torch.searchsorted(batch, first).tolist()
        high = torch.searchsorted(batch, last, right=True).tolist()
    for start, begin, end in zip(starts, low, high, strict=True):
        rows = slice(start, min(start + _BLOCK, num_nodes))
        cuts = range(begin, end, _BLOCK)
        yield rows, [slice(c, min(c + _BLOCK, end)) for c in cuts]


def _logits(
    q: Tensor, k: Tensor, rows: slice, cols: slice, batch: Tensor | None
) -> Tensor:
    """Logits of a block, [H, R, C], -inf between different graphs."""
    logits = q @ k.transpose(1, 2)
    if batch is not None:
        logits.masked_fill_(batch[rows, None] != batch[cols], -torch.inf)
    return logits


def _relative(logits: Tensor, shift: Tensor) -> Tensor:
    """Weights of a block relative to e^shift, Eq. (3)."""
    shift = shift[..., None]
    far = torch.sub(shift, logits).exp_()
    return far.add_(shift.exp()).reciprocal_()


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    fits = q.dim() == 3 and q.shape == k.shape and v.dim() == 3
    if not fits or v.shape[:2] not in (q.shape[:2], (q.size(0), 1)):
        raise ValueError(
            f"'sigmoid_attention' expects q and k of shape [N, H, D], and v "
            f'of shape [N, H, D_v] or [N, 1, D_v] (got {list(q.shape)}, '
            f'{list(k.shape)} and {list(v.shape)})'
        )
