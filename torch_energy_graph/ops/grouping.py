"""Entries by group: how unsorted lists become rows."""

from __future__ import annotations

import torch
from torch import Tensor

from . import native

__all__ = ['group', 'group_ids']

_INT32_MAX = 2**31 - 1


@torch.library.custom_op('torch_energy_graph::group', mutates_args=())
def group(
    index: Tensor, num_groups: int, order: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Row pointers, and the entries of group 0, of group 1, and so on.

    Args:
        index (Tensor): Group of every entry, :math:`[E]`, checked before.
        num_groups (int): G.
        order (Tensor, optional): Order of entries within a group,
            :math:`[E]`. (default: as they stand)

    Returns:
        (LongTensor, Tensor): :math:`[G + 1]`, and :math:`[E]` in int32 where
        that holds E.
    """
    on_cpu = index.device.type == 'cpu' and index.numel() <= _INT32_MAX
    if on_cpu and native.build_error is None:
        return native.operators.group(index.contiguous(), num_groups, order)
    ids = index if order is None else index[order]
    ids, perm = torch.sort(ids, stable=True)
    bounds = torch.arange(num_groups + 1, device=ids.device)
    ptr = torch.searchsorted(ids, bounds.to(ids.dtype))
    perm = perm.to(_perm_type(index))
    return ptr, perm if order is None else order[perm]


@group.register_fake
def _group_fake(
    index: Tensor, num_groups: int, order: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    ptr = index.new_empty(num_groups + 1, dtype=torch.long)
    return ptr, torch.empty_like(index, dtype=_perm_type(index))


def _perm_type(index: Tensor) -> torch.dtype:
    return torch.int32 if index.numel() <= _INT32_MAX else torch.int64


def group_ids(ptr: Tensor, size: int, perm: Tensor | None = None) -> Tensor:
    r"""Group of every entry, :math:`[E]`: the inverse of :func:`group`."""
    groups = torch.arange(ptr.size(0) - 1, device=ptr.device)
    ids = groups.repeat_interleave(ptr.diff(), output_size=size)
    return (
        ids
        if perm is None
        else torch.empty_like(ids).scatter(0, perm.long(), ids)
    )
