"""Graphs of a batch as tiles: rows of one graph each, without long padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ['Tiles', 'batch_of', 'cut']

_ROWS = 64  # of a tile


@dataclass(frozen=True)
class Tiles:
    r"""Which nodes stand in which tile.

    A tile holds up to 64 nodes of one graph. Their number,
    :math:`L = \lfloor N / 64 \rfloor + B`, depends on sizes alone, so that a
    compiled or exported layer takes any batch; unused rows are zero.

    Args:
        slot (LongTensor): Row of every node among those of all tiles,
            :math:`[N]`.
        graph (LongTensor): Graph of every tile, :math:`[L]`.
        count (LongTensor): Number of nodes of every graph, :math:`[B]`.
    """

    slot: Tensor
    graph: Tensor
    count: Tensor

    def pack(self, nodes: Tensor) -> Tensor:
        """From nodes to tiles, `[N, ...]` to `[L, 64, ...]`."""
        size = self.graph.size(0), _ROWS, *nodes.shape[1:]
        rows = nodes.new_zeros(size[0] * _ROWS, *nodes.shape[1:])
        return rows.index_copy(0, self.slot, nodes).view(size)

    def unpack(self, tiles: Tensor) -> Tensor:
        """From tiles to nodes."""
        return tiles.flatten(0, 1).index_select(0, self.slot)

    def total(self, tiles: Tensor) -> Tensor:
        """Sum over the tiles of every graph, `[L, ...]` to `[B, ...]`."""
        size = self.count.size(0), *tiles.shape[1:]
        return tiles.new_zeros(size).index_add(0, self.graph, tiles)

    def spread(self, graphs: Tensor) -> Tensor:
        """Value of the graph of every tile, `[B, ...]` to `[L, ...]`."""
        return graphs.index_select(0, self.graph)


def cut(batch: Tensor, num_graphs: int) -> Tiles:
    r"""Cuts the graphs of a batch into tiles.

    Args:
        batch (LongTensor): Graph of every node, :math:`[N]`, in any order.
        num_graphs (int): B.
    """
    num_nodes = batch.size(0)
    count = batch.new_zeros(num_graphs)
    count = count.scatter_add(0, batch, torch.ones_like(batch))
    order = torch.argsort(batch, stable=True)
    nodes = torch.arange(num_nodes, device=batch.device)
    rank = torch.empty_like(batch).scatter(0, order, nodes)
    rank = rank - (count.cumsum(0) - count)[batch]  # within the graph, [N]
    tiles = (count + _ROWS - 1) // _ROWS  # of every graph, [B]
    last = tiles.cumsum(0)
    first = (last - tiles)[batch] + rank // _ROWS
    ids = torch.arange(num_nodes // _ROWS + num_graphs, device=batch.device)
    graph = torch.searchsorted(last, ids, right=True)
    # tiles beyond the last are zero, whatever their graph
    graph = graph.clamp(max=num_graphs - 1)
    return Tiles(first * _ROWS + rank % _ROWS, graph, count)


def batch_of(
    num_nodes: int,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    batch_size: int | None = None,
) -> tuple[Tensor | None, int]:
    r"""Graph of every node, and the number of graphs.

    Args:
        num_nodes (int): N.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`, in
            any order. (default: one graph)
        ptr (LongTensor, optional): Boundaries of sorted graphs,
            :math:`[B + 1]`; an alternative to :obj:`batch`.
        batch_size (int, optional): Number of graphs; without it, the largest
            entry of :obj:`batch` is read from the device.

    Raises:
        ValueError: If both are given, or one does not fit.
    """
    if batch is not None and ptr is not None:
        raise ValueError("give one of 'batch' and 'ptr', not both")
    if ptr is not None:
        graphs = torch.arange(ptr.size(0) - 1, device=ptr.device)
        if not torch.compiler.is_compiling() and int(ptr[-1]) != num_nodes:
            raise ValueError(
                f"'ptr' must end at the number of nodes, {num_nodes} "
                f'(it ends at {int(ptr[-1])})'
            )
        batch = graphs.repeat_interleave(ptr.diff(), output_size=num_nodes)
        return batch, ptr.size(0) - 1
    if batch is None:
        if batch_size is not None and batch_size != 1:
            raise ValueError(
                f"'batch_size' needs 'batch' (got batch_size={batch_size} "
                f'without it); give the graph of every node'
            )
        return None, 1
    if batch.dim() != 1 or batch.size(0) != num_nodes:
        raise ValueError(
            f"'batch' must name the graph of every node, [{num_nodes}] "
            f'(got {list(batch.shape)})'
        )
    batch = batch.long()
    if batch_size is None:
        batch_size = int(batch.max()) + 1 if batch.numel() else 0
    if not torch.compiler.is_compiling() and batch.numel():
        low, high = (int(v) for v in torch.aminmax(batch))
        if low < 0 or high >= batch_size:
            raise ValueError(
                f"'batch' names graph {low if low < 0 else high}, but there "
                f'are only {batch_size}; give a larger batch_size'
            )
    return batch, batch_size
