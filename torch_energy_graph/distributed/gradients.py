r"""Training one model on all ranks: equal weights, one loss, one gradient.

The loss is a mean over the items of all ranks,
:math:`L = \frac{1}{n} \sum_r \sum_{i \in r} \ell_i` with :math:`n` counted
over all ranks. Each rank calls :obj:`backward` on its share
:math:`\frac{1}{n} \sum_{i \in r} \ell_i`, not on its own mean: ranks with
fewer items must not weigh more. Its parameters then hold the gradient through
its own nodes, and the gradient of :math:`L` is the *sum* over ranks.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parameter import is_lazy

from torch_energy_graph.distributed.collectives import (
    Group,
    all_reduce_sum,
    world_of,
)

__all__ = ['broadcast_parameters', 'mean_share', 'sync_gradients']


def mean_share(values: Tensor, group: Group = None) -> Tensor:
    """This rank's share of the mean over the values of all ranks.

    The shares add up to the mean; ``all_reduce_sum(share.detach())`` is its
    value.

    Args:
        values (Tensor): Loss of every local item, of any shape; may be empty.
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)

    Returns:
        Tensor: A scalar.

    Raises:
        ValueError: If no rank has a value.
    """
    count = torch.tensor(values.numel(), device=values.device)
    total = int(all_reduce_sum(count, group))
    if total == 0:
        raise ValueError(
            'expected a value on at least one rank (got none); is the '
            'training mask empty?'
        )
    return values.sum() / total


@torch.no_grad()
def sync_gradients(module: torch.nn.Module, group: Group = None) -> None:
    r"""Sum the gradients of all ranks, so that each holds that of the loss.

    One all-reduce, in at least float32. A parameter that no rank has a
    gradient for keeps :obj:`None`.

    Args:
        module (torch.nn.Module): The same module on every rank, after
            :obj:`backward`.
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)
    """
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        return
    dtype = torch.float32
    for p in parameters:
        dtype = torch.promote_types(dtype, p.dtype)
    has = parameters[0].new_tensor(
        [p.grad is not None for p in parameters], dtype=dtype
    )
    grads = [torch.zeros_like(p) if p.grad is None else p.grad
             for p in parameters]  # fmt: skip
    flat = torch.cat([has, *(grad.to(dtype).flatten() for grad in grads)])
    has, *sums = all_reduce_sum(flat, group).split(
        [len(parameters), *(p.numel() for p in parameters)]
    )
    for p, used, total in zip(parameters, has.tolist(), sums, strict=True):
        if used:
            p.grad = total.view_as(p).to(p.dtype)


@torch.no_grad()
def broadcast_parameters(module: torch.nn.Module, group: Group = None) -> None:
    """Give every rank the parameters and buffers of the group's first rank.

    Args:
        module (torch.nn.Module): The same module on every rank.
        group (ProcessGroup, optional): If :obj:`None`, all ranks.
            (default: :obj:`None`)

    Raises:
        ValueError: If a lazy parameter has no shape yet.
    """
    world_of(group)
    if any(is_lazy(p) for p in module.parameters()):
        raise ValueError(
            "'broadcast_parameters' expects parameters with shapes (got lazy "
            'ones); run the module once before'
        )
    for tensor in module.state_dict().values():
        dist.broadcast(tensor, group=group, group_src=0)
