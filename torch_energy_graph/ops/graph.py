"""One graph in both sweep orders: by target (CSR) and by source (CSC)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_geometric import EdgeIndex
from torch_geometric.utils import is_sparse, to_edge_index

from .grouping import group, group_ids
from .plan import work_plan

__all__ = ['GraphCache', 'coo_edges']

_INT32_MAX = 2**31 - 1

# pointers, other ends, edge ids
_Compressed: TypeAlias = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class GraphCache:
    r"""Edges sorted by target and by source, with their permutations.

    Energy attention reads every edge twice: once from its target (query) and
    once from its source (key). This holds both orders, so that a graph which
    is used many times is sorted once. It is accepted wherever our layers and
    operators take an ``edge_index``, and never required.

    Edges of a row are ordered by their other end, then by their position in
    the caller's list, so results do not depend on the caller's edge order.
    Parallel edges are kept. It is a pytree of tensors: ``torch.compile`` and
    ``torch.export`` see through it.

    For kernels, both orders carry a plan of work (:mod:`.plan`): the rows by
    falling degree, and the pieces into which hubs are cut.

    Args:
        rowptr (LongTensor): Row pointers of the targets,
            :math:`[N_\mathrm{dst} + 1]`.
        col (IntTensor): Sources in target order, :math:`[E]`.
        edge_row (IntTensor): Position in the caller's edge list of every
            entry of :obj:`col`, :math:`[E]`.
        colptr (LongTensor): Row pointers of the sources,
            :math:`[N_\mathrm{src} + 1]`.
        row (IntTensor): Targets in source order, :math:`[E]`.
        edge_col (IntTensor): Position in the caller's edge list of every
            entry of :obj:`row`, :math:`[E]`.
        dst_order (IntTensor): Targets by falling in-degree,
            :math:`[N_\mathrm{dst}]`.
        dst_chunks (IntTensor): Pointers to the pieces of hub targets,
            :math:`[\min(N_\mathrm{dst}, \lfloor E / 512 \rfloor) + 1]`.
        src_order (IntTensor): Sources by falling out-degree,
            :math:`[N_\mathrm{src}]`.
        src_chunks (IntTensor): Pointers to the pieces of hub sources,
            :math:`[\min(N_\mathrm{src}, \lfloor E / 512 \rfloor) + 1]`.
    """

    rowptr: Tensor
    col: Tensor
    edge_row: Tensor
    colptr: Tensor
    row: Tensor
    edge_col: Tensor
    dst_order: Tensor
    dst_chunks: Tensor
    src_order: Tensor
    src_chunks: Tensor

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        num_nodes: int | tuple[int, int] | None = None,
    ) -> GraphCache:
        r"""Sorts a graph given in any of PyG's edge forms.

        Args:
            edge_index (Adj or GraphCache): COO :math:`[2, E]` (source,
                target), :class:`~torch_geometric.EdgeIndex`, a transposed
                sparse adjacency, or a cache (returned as it is).
            num_nodes (int or (int, int), optional): Number of nodes, or of
                sources and targets. (default: inferred from the largest id)

        Raises:
            ValueError: If the edge list has a wrong type or shape.
            IndexError: If an edge names a node that does not exist.
        """
        if isinstance(edge_index, GraphCache):
            edge_index.check_size(num_nodes)
            return edge_index
        given, (edge_index, _) = edge_index, coo_edges(edge_index)
        num_src, num_dst = _sizes(edge_index, num_nodes)
        _check_count(num_src, num_dst)
        _check_range(edge_index, num_src, num_dst)
        if _holds_both_orders(given, num_src, num_dst):
            by_target, by_source = given.get_csc(), given.get_csr()
            return cls._planned(_narrowed(*by_target), _narrowed(*by_source))
        src, dst = edge_index
        return cls._planned(
            _sorted(dst, src, num_dst, num_src),
            _sorted(src, dst, num_src, num_dst),
        )

    @classmethod
    def from_csr(
        cls, rowptr: Tensor, col: Tensor, num_src: int | None = None
    ) -> GraphCache:
        r"""Takes a graph that is sorted by target already.

        The caller's order of edges is that of :obj:`col`. This saves the
        list of pairs, and most of the memory of sorting it.

        Args:
            rowptr (LongTensor): Row pointers of the targets,
                :math:`[N_\mathrm{dst} + 1]`.
            col (IntTensor or LongTensor): Sources, :math:`[E]`.
            num_src (int, optional): Number of sources.
                (default: that of targets)

        Raises:
            ValueError: If the pointers do not fit the sources.
            IndexError: If an edge names a node that does not exist.
        """
        num_dst = rowptr.size(0) - 1
        num_src = num_dst if num_src is None else num_src
        _check_count(num_src, num_dst)
        if num_dst < 0 or not _is_pointer(rowptr, col.size(0)):
            raise ValueError(
                f"'GraphCache.from_csr' expects pointers that rise from 0 to "
                f'the {col.size(0)} edges'
            )
        _check_ids(col, num_src, 'source')
        targets = group_ids(rowptr, col.size(0))
        by_target = _narrowed((rowptr, col), None)
        colptr, perm = group(col, num_src)
        by_source = _narrowed((colptr, targets[perm]), perm)
        return cls._planned(by_target, by_source)

    @classmethod
    def _planned(
        cls, by_target: _Compressed, by_source: _Compressed
    ) -> GraphCache:
        num_edges = by_target[1].size(0)
        plans = (work_plan(o[0], num_edges) for o in (by_target, by_source))
        return cls(*by_target, *by_source, *chain.from_iterable(plans))

    @property
    def num_dst(self) -> int:
        """Number of targets (queries)."""
        return self.rowptr.size(0) - 1

    @property
    def num_src(self) -> int:
        """Number of sources (keys)."""
        return self.colptr.size(0) - 1

    @property
    def num_edges(self) -> int:
        """Number of edges, parallel ones included."""
        return self.col.size(0)

    @property
    def device(self) -> torch.device:
        """Where the arrays live."""
        return self.col.device

    def arrays(self) -> list[Tensor]:
        """The arrays, in the order of the constructor."""
        return [getattr(self, f.name) for f in fields(self)]

    def to(self, device: torch.device | str) -> GraphCache:
        """Copies the arrays to another device."""
        return GraphCache(*(array.to(device) for array in self.arrays()))

    def targets(self) -> Tensor:
        """Target of every edge in target order, :math:`[E]`."""
        return group_ids(self.rowptr, self.num_edges)

    def edge_index(self) -> Tensor:
        """The edges in the caller's order, :math:`[2, E]`."""
        out = self.col.new_empty((2, self.num_edges), dtype=torch.long)
        out[0, self.edge_row] = self.col.long()
        out[1, self.edge_row] = self.targets()
        return out

    def in_degree(self) -> Tensor:
        r"""Number of in-edges of every target, :math:`[N_\mathrm{dst}]`."""
        return self.rowptr.diff()

    def out_degree(self) -> Tensor:
        r"""Number of out-edges of every source, :math:`[N_\mathrm{src}]`."""
        return self.colptr.diff()

    def check_size(self, num_nodes: int | tuple[int, int] | None) -> None:
        """Raises a ValueError if the cache is of a graph of another size."""
        if num_nodes is None:
            return
        if not isinstance(num_nodes, tuple):  # a size may be symbolic
            num_nodes = (num_nodes, num_nodes)
        if num_nodes != (self.num_src, self.num_dst):
            raise ValueError(
                f"'GraphCache' was built for {self.num_src} sources and "
                f'{self.num_dst} targets, but the input has {num_nodes[0]} '
                f'and {num_nodes[1]}; build it again with num_nodes='
            )


torch.export.register_dataclass(
    GraphCache, serialized_type_name='torch_energy_graph.GraphCache'
)


def coo_edges(edge_index: Any) -> tuple[Tensor, Tensor | None]:
    r"""Brings any of PyG's edge forms to a plain edge list.

    Args:
        edge_index (Adj or GraphCache): COO, :class:`EdgeIndex`, transposed
            ``torch.sparse`` or ``SparseTensor`` adjacency, or a cache.

    Returns:
        (LongTensor, Tensor or None): Edges :math:`[2, E]` (source, target),
        and the values of a sparse matrix.

    Raises:
        ValueError: If the edge list has a wrong type or shape.
    """
    if isinstance(edge_index, GraphCache):
        return edge_index.edge_index(), None
    if isinstance(edge_index, EdgeIndex):
        return edge_index.as_tensor(), None
    if is_sparse(edge_index):
        # rows of `adj_t` are targets, and COO edges are (source, target)
        index, value = to_edge_index(edge_index)
        return index.flip(0), value
    if not isinstance(edge_index, Tensor):
        raise ValueError(
            f"'edge_index' must be a tensor, a sparse adjacency or a "
            f"'GraphCache' (got {type(edge_index).__name__})"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        hint = (
            '; transpose it with .t()?'
            if edge_index.dim() == 2 and edge_index.size(1) == 2
            else ''
        )
        raise ValueError(
            f"'edge_index' must have shape [2, E] "
            f'(got {list(edge_index.shape)}){hint}'
        )
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"'edge_index' must hold int64 or int32 node ids "
            f'(got {edge_index.dtype}); convert it with .long()'
        )
    return edge_index, None


def _sizes(
    edge_index: Tensor, num_nodes: int | tuple[int, int] | None
) -> tuple[int, int]:
    if num_nodes is None:
        size = int(edge_index.max()) + 1 if edge_index.numel() else 0
        return size, size
    if isinstance(num_nodes, tuple):
        return num_nodes
    return num_nodes, num_nodes


def _check_count(num_src: int, num_dst: int) -> None:
    if max(num_src, num_dst) > _INT32_MAX:
        raise ValueError(
            f"'GraphCache' holds up to {_INT32_MAX} sources and targets "
            f'(got {num_src} and {num_dst}); split the graph'
        )


def _check_range(edge_index: Tensor, num_src: int, num_dst: int) -> None:
    _check_ids(edge_index[0], num_src, 'source')
    _check_ids(edge_index[1], num_dst, 'target')


def _check_ids(ids: Tensor, size: int, name: str) -> None:
    if torch.compiler.is_compiling() or ids.numel() == 0:
        return
    low, high = (int(v) for v in torch.aminmax(ids))
    if low < 0 or high >= size:
        raise IndexError(
            f"'edge_index' names {name} node {low if low < 0 else high}, "
            f'but there are only {size} (ids 0 to {size - 1}); check the '
            f'edge list, or give the right number of nodes'
        )


def _is_pointer(ptr: Tensor, size: int) -> bool:
    ends = int(ptr[0]) == 0 and int(ptr[-1]) == size
    return ends and bool((ptr.diff() >= 0).all())


def _sorted(
    major: Tensor, minor: Tensor, num_major: int, num_minor: int
) -> _Compressed:
    """Pointers, other ends and edge ids of the edges ordered by `major`."""
    _, by_minor = group(minor, num_minor)
    ptr, perm = group(major, num_major, by_minor)
    return _narrowed((ptr, minor[perm]), perm)


def _narrowed(
    compressed: tuple[Tensor, Tensor], perm: Tensor | None
) -> _Compressed:
    """Pointers in int64, columns and edge ids in int32 where they fit."""
    ptr, minor = compressed
    num_edges = minor.size(0)
    if perm is None:
        perm = torch.arange(num_edges, device=minor.device)
    if num_edges <= _INT32_MAX:
        perm = perm.int()
    return ptr.long(), minor.int(), perm


def _holds_both_orders(edge_index: Any, num_src: int, num_dst: int) -> bool:
    return (
        isinstance(edge_index, EdgeIndex)
        and edge_index.is_sorted
        and edge_index.sparse_size() == (num_src, num_dst)
    )
