"""How kernels share out the rows of a sweep: by degree, hubs in pieces."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ['CHUNK', 'work_plan']

# A row with more edges is a hub: kernels work on pieces of so many edges and
# merge the pieces in order, so results do not depend on who did the work.
CHUNK = 512


def work_plan(ptr: Tensor, num_edges: int) -> tuple[Tensor, Tensor]:
    r"""Rows by falling degree, and pointers to the pieces of the hubs.

    Hub number h is row :obj:`order[h]`; its pieces have the numbers
    :obj:`chunks[h]` to :obj:`chunks[h + 1] - 1`, of which piece c holds the
    edges from :obj:`ptr[order[h]] + (c - chunks[h]) * CHUNK` on. Behind the
    last hub the pointers repeat. All shapes follow from N and E alone, so
    that no device waits and compilers see no data.

    Args:
        ptr (LongTensor): Row pointers, :math:`[N + 1]`.
        num_edges (int): E, the last pointer.

    Returns:
        (IntTensor, IntTensor): order :math:`[N]`, and chunks
        :math:`[\min(N, \lfloor E / 512 \rfloor) + 1]`.
    """
    degree = ptr.diff()
    order = torch.argsort(degree, descending=True, stable=True)  # [N]
    most_hubs = min(degree.size(0), num_edges // CHUNK)
    degree = degree[order[:most_hubs]]
    pieces = (degree + CHUNK - 1) // CHUNK * (degree > CHUNK)
    chunks = torch.cat([pieces.new_zeros(1), pieces.cumsum(0)])
    return order.int(), chunks.int()
