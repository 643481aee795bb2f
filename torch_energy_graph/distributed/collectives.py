r"""Collectives that autograd understands.

Every rank holds a part :math:`L_r` of one loss :math:`L = \sum_r L_r` and
calls :obj:`backward` on its part. A gradient then means
:math:`\partial L / \partial x`, of the sum, on whichever rank :math:`x` lives.
With this meaning the adjoint of a sum over ranks is a sum over ranks, and the
adjoint of sending rows is sending their gradients back. Both adjoints are
built from the same two operations, so gradients of gradients are right, too.

Every rank must make the same calls in the same order, forward and backward;
a rank without nodes makes them with empty tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

__all__ = ['Group', 'all_reduce_sum', 'exchange_rows', 'world_of']

Group = dist.ProcessGroup | None


def world_of(group: Group = None) -> tuple[int, int]:
    """Own rank and number of ranks.

    Args:
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)

    Raises:
        RuntimeError: If there is no process group.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "expected a process group (torch.distributed isn't initialised); "
            "open one with 'torchrun_group()' in a script started by torchrun"
        )
    return dist.get_rank(group), dist.get_world_size(group)


def all_reduce_sum(x: Tensor, group: Group = None) -> Tensor:
    """Sum of a tensor over all ranks, differentiable any number of times.

    Args:
        x (Tensor): Of the same shape and type on every rank.
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)

    Returns:
        Tensor: The same values on every rank.
    """
    world_of(group)
    return _AllReduceSum.apply(x, group)


def exchange_rows(
    x: Tensor,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    group: Group = None,
) -> Tensor:
    r"""Rows of all ranks to all ranks, differentiable any number of times.

    Args:
        x (Tensor): Rows to send, grouped by receiver,
            :math:`[\sum_s n_s, *]`.
        send_counts (list): How many rows each rank gets.
        recv_counts (list): How many rows each rank sends.
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)

    Returns:
        Tensor: Received rows, grouped by sender.

    Raises:
        ValueError: If there isn't one count for every rank.
    """
    _, world_size = world_of(group)
    if not len(send_counts) == len(recv_counts) == world_size:
        raise ValueError(
            f'expected one count for each of {world_size} ranks (got '
            f'{len(send_counts)} and {len(recv_counts)}); was the graph cut '
            f'for another number of ranks?'
        )
    return _ExchangeRows.apply(x, list(send_counts), list(recv_counts), group)


class _AllReduceSum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        out = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _AllReduceSum.apply(grad, ctx.group), None


class _ExchangeRows(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, send: list[int], recv: list[int], group: Group
    ) -> Tensor:
        ctx.counts = send, recv, group
        out = x.new_empty(sum(recv), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), recv, send, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        send, recv, group = ctx.counts
        back = _ExchangeRows.apply(grad, recv, send, group)
        return back, None, None, None
