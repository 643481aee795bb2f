"""Rows in blocks that stay in cache, so that nothing wide is stored."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ['accumulator', 'place', 'row_blocks', 'store']

_VALUES = 2**17  # of the widest intermediate of a block


def row_blocks(num_rows: int, width: int) -> Iterator[slice]:
    """Slices of consecutive rows.

    Args:
        num_rows (int): How many rows there are.
        width (int): Values of a row in the widest intermediate.
    """
    step = max(_VALUES // max(width, 1), 16)
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def accumulator(tensor: Tensor) -> torch.dtype:
    """The type sums are taken in: float32 at least."""
    return torch.promote_types(tensor.dtype, torch.float32)


def place(out: Tensor, rows: slice, like: Tensor) -> Tensor | None:
    """Where the last operation on a block may write: rows of the same type.

    Half types are converted by :func:`store`; there is no place for them.
    """
    return out[rows] if out.dtype == like.dtype else None


def store(out: Tensor, rows: slice, block: Tensor) -> None:
    """Writes a block, unless it was computed in its place."""
    if out.dtype != block.dtype or out[rows].data_ptr() != block.data_ptr():
        out[rows] = block
