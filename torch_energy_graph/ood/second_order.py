"""Forward passes whose second derivatives are right.

A penalty on a gradient is minimised by differentiating twice. Some fast
operators have a first derivative only: torch_scatter's sums over sorted
groups, behind PyG's aggregations and softmax with :obj:`ptr`, lose terms of
the second one *without an error* (rusty1s/pytorch_scatter#299);
torch_sparse's products likewise; :func:`torch.segment_reduce`, sparse
products with a reduction and flash attention raise.

Inside :func:`second_order_paths` all of them run on gathers and scatters by
index, which have all derivatives. The operators of this package need
nothing: their backward pass is differentiable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from torch_geometric import EdgeIndex
from torch_geometric.index import ptr2index
from torch_geometric.utils import scatter

__all__ = ['plain_edges', 'second_order_paths']


@contextmanager
def second_order_paths() -> Iterator[None]:
    """Context of a forward pass that will be differentiated twice."""
    with _ByIndex(), sdpa_kernel(SDPBackend.MATH):
        yield


def plain_edges(value: Any) -> Any:
    """An :class:`EdgeIndex` as a tensor, in its order; others as they are.

    PyG takes other paths for it, outside of what can be replaced here.
    """
    return value.as_tensor() if isinstance(value, EdgeIndex) else value


class _ByIndex(TorchFunctionMode):
    """Replaces the operators of the table below."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        by_index = _BY_INDEX.get(getattr(func, '__name__', ''))
        if by_index is None:
            return func(*args, **kwargs)
        return by_index(func, *args, **kwargs)


def _segment_csr(reduce: str, with_arg: bool) -> Callable[..., Any]:
    """Of torch_scatter, whose pointers stand along any dimension."""

    def by_index(_: Any, src: Tensor, ptr: Tensor, out: Any = None) -> Any:
        dim = ptr.dim() - 1
        if out is not None or ptr.numel() != ptr.size(dim):
            raise RuntimeError(
                "torch_scatter's 'segment_csr' with 'out', or with pointers "
                'that differ between rows, has no second derivative; use '
                "'scatter' with an index"
            )
        index = ptr2index(ptr.flatten(), output_size=src.size(dim))
        total = scatter(src, index, dim, ptr.size(dim) - 1, reduce)
        return (total, None) if with_arg else total

    return by_index


def _segment_reduce(
    func: Any,
    data: Tensor,
    reduce: str,
    *,
    offsets: Tensor | None = None,
    initial: float | None = None,
    **kwargs: Any,
) -> Any:
    """Of torch, as PyG calls it: empty groups give zeros."""
    if offsets is None or offsets.dim() > 1 or kwargs.get('axis', 0):
        return func(data, reduce, offsets=offsets, initial=initial, **kwargs)
    index = ptr2index(offsets, output_size=data.size(0))
    return scatter(data, index, 0, offsets.numel() - 1, reduce)


def _sparse_mm(func: Any, mat: Tensor, other: Tensor, *reduce: str) -> Any:
    """Of torch; the plain sum, without a reduction, is differentiable."""
    if not reduce or mat.layout != torch.sparse_csr:
        return func(mat, other, *reduce)
    rows = mat.crow_indices(), mat.col_indices(), mat.values()
    return _product(*rows, other, reduce[0])


def _spmm(reduce: str) -> Callable[..., Any]:
    """Of torch_sparse, for sums and means."""

    def by_index(
        _: Any, row: Any, rowptr: Tensor, col: Tensor, value: Any, *rest: Any
    ) -> Tensor:
        return _product(rowptr, col, value, rest[-1], reduce)

    return by_index


def _spmm_extreme(reduce: str) -> Callable[..., Any]:
    """Of torch_sparse, for minima and maxima."""

    def by_index(
        _: Any, rowptr: Tensor, col: Tensor, value: Any, other: Tensor
    ) -> tuple[Tensor, None]:
        return _product(rowptr, col, value, other, reduce), None

    return by_index


def _product(
    rowptr: Tensor, col: Tensor, value: Any, other: Tensor, reduce: str
) -> Tensor:
    """Sparse matrix times dense one, [N, C], by rows."""
    index = ptr2index(rowptr, output_size=col.numel())
    message = other.index_select(0, col)  # [E, C]
    if value is not None:
        message = value.unsqueeze(-1) * message
    return scatter(message, index, 0, rowptr.numel() - 1, reduce)


_BY_INDEX: dict[str, Callable[..., Any]] = {
    'segment_sum_csr': _segment_csr('sum', False),
    'segment_mean_csr': _segment_csr('mean', False),
    'segment_min_csr': _segment_csr('min', True),
    'segment_max_csr': _segment_csr('max', True),
    'segment_reduce': _segment_reduce,
    '_sparse_mm': _sparse_mm,
    'spmm_sum': _spmm('sum'),
    'spmm_mean': _spmm('mean'),
    'spmm_min': _spmm_extreme('min'),
    'spmm_max': _spmm_extreme('max'),
}
