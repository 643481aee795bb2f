"""Very sparse features, which the first linear map of a network multiplies.

Bags of words are stored dense in PyG's graphs, though 99 % of their entries
are zero: the first map then takes most of a step.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from torch_energy_graph.ops import GraphCache, spmm

__all__ = ['SparseFeatures', 'network_input']

SPARSE = 0.02  # largest share of entries that are not zero


class SparseFeatures:
    r"""A matrix that stands for dense features in :math:`x W^\top + b`.

    Entries are the weighted edges of a graph from columns to rows; both
    orders are sorted once, so the backward pass sorts nothing.

    Args:
        x (Tensor): Features :math:`[N, F]`, without gradient.
    """

    def __init__(self, x: Tensor) -> None:
        row, col = x.nonzero(as_tuple=True)
        self.values = x[row, col]
        self.shape, self.device, self.dtype = x.shape, x.device, x.dtype
        self.cache = GraphCache.from_edge_index(
            torch.stack([col, row]), (x.size(1), x.size(0))
        )

    def size(self, dim: int) -> int:
        """Size of one dimension."""
        return self.shape[dim]

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Multiply; nothing else is defined."""
        if function is not linear:
            return NotImplemented
        x, weight, bias = (*args, None)[:3]
        out = spmm(weight.t(), x.cache, x.values)
        return out if bias is None else out + bias


def network_input(x: Tensor) -> Tensor | SparseFeatures:
    """Return features as networks take them, sparse if that is faster."""
    dense = int(x.count_nonzero()) > SPARSE * x.numel()
    return x if dense else SparseFeatures(x)
