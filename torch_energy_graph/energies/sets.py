r"""Sets of patterns in two layouts, and what is done over a set.

*Dense*: the patterns of a set stand along an axis, scores are
:math:`[*, S, N]`. *Ragged*: the patterns of all sets stand in one list, and
an index names the set of each; scores are :math:`[N, *]`. Energies are
written once, over either.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from torch_geometric.utils import scatter

from torch_energy_graph.ops.grouping import group, group_ids

__all__ = ['DenseSets', 'RaggedSets', 'Sets', 'set_pairs', 'sets_of']


class DenseSets:
    """Patterns of a set along the last axis of the scores."""

    def overlap(self, state: Tensor, stored: Tensor) -> Tensor:
        """Inner products, `[*, S, d]` and `[*, N, d]` to `[*, S, N]`."""
        return state @ stored.mT

    def read(self, weights: Tensor, stored: Tensor) -> Tensor:
        """Weighted sums of patterns, `[*, S, d]`."""
        return weights @ stored

    def per_pattern(self, value: Tensor, dim: int) -> Tensor:
        """Aligns one value per pattern, `[*, N]`, with scores."""
        return value.unsqueeze(-2)

    def total(self, value: Tensor) -> Tensor:
        """Sum over the patterns of every set."""
        return value.sum(-1)

    def largest(self, value: Tensor) -> Tensor:
        """Largest value of every set, -inf for none."""
        if value.size(-1) == 0:
            return value.new_full(value.shape[:-1], -torch.inf)
        return value.amax(-1)

    def spread(self, value: Tensor) -> Tensor:
        """Aligns one value per set with scores."""
        return value.unsqueeze(-1)


class RaggedSets(NamedTuple):
    """Patterns of all sets along the first axis, in any order."""

    ids: Tensor
    num_sets: int

    def overlap(self, state: Tensor, stored: Tensor) -> Tensor:
        """Inner products, `[B, *, d]` and `[N, *, d]` to `[N, *]`."""
        return (self.spread(state) * _widen(stored, state.dim())).sum(-1)

    def read(self, weights: Tensor, stored: Tensor) -> Tensor:
        """Weighted sums of patterns, `[B, *, d]`."""
        stored = _widen(stored, weights.dim() + 1)
        return self.total(weights.unsqueeze(-1) * stored)

    def per_pattern(self, value: Tensor, dim: int) -> Tensor:
        """Aligns one value per pattern, `[N, *]`, with scores of `dim`."""
        return _widen(value, dim)

    def total(self, value: Tensor) -> Tensor:
        """Sum over the patterns of every set."""
        return scatter(value, self.ids, dim_size=self.num_sets, reduce='sum')

    def largest(self, value: Tensor) -> Tensor:
        """Largest value of every set, -inf for none."""
        out = value.new_full((self.num_sets, *value.shape[1:]), -torch.inf)
        index = self.ids.view(-1, *[1] * (value.dim() - 1))
        return out.scatter_reduce(0, index.expand_as(value), value, 'amax')

    def spread(self, value: Tensor) -> Tensor:
        """Aligns one value per set with scores."""
        return value.index_select(0, self.ids)


Sets = DenseSets | RaggedSets


def sets_of(
    size: int,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    num_sets: int | None = None,
) -> Sets:
    r"""Layout of a call: ragged with :obj:`index` or :obj:`ptr`, else dense.

    Args:
        size (int): Number of patterns of all sets.
        index (LongTensor, optional): Set of every pattern, :math:`[N]`, in
            any order.
        ptr (LongTensor, optional): Boundaries of sorted sets,
            :math:`[B + 1]`; an alternative to :obj:`index`.
        num_sets (int, optional): Number of sets. (default: largest index + 1)

    Raises:
        ValueError: If both are given, or one does not fit.
        IndexError: If an index lies outside of the sets.
    """
    if index is not None and ptr is not None:
        raise ValueError("give one of 'index' and 'ptr', not both")
    if ptr is not None:
        _check_ptr(ptr, size, num_sets)
        return RaggedSets(group_ids(ptr, size), ptr.size(0) - 1)
    if index is None:
        return DenseSets()
    if index.dim() != 1 or index.size(0) != size:
        raise ValueError(
            f"'index' must name the set of every pattern, [{size}] "
            f'(got {list(index.shape)})'
        )
    if num_sets is None:
        num_sets = int(index.max()) + 1 if size else 0
    _check_range(index, num_sets, 'index')
    return RaggedSets(index.long(), num_sets)


def set_pairs(
    state_index: Tensor,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
) -> Tensor:
    r"""All pairs of a state and a pattern of the same set.

    Args:
        state_index (LongTensor): Set of every state, :math:`[S]`, in any
            order.
        index (LongTensor, optional): Set of every pattern, :math:`[N]`, in
            any order.
        ptr (LongTensor, optional): Boundaries of sorted sets,
            :math:`[B + 1]`; an alternative to :obj:`index`.

    Returns:
        LongTensor: States and patterns, :math:`[2, P]`, states in order; a
        state whose set is empty has no pair.

    Raises:
        ValueError: If not exactly one of :obj:`index` and :obj:`ptr` is
            given.
        IndexError: If an index is negative, or a state names a set beyond
            :obj:`ptr`.
    """
    if (index is None) == (ptr is None):
        raise ValueError(
            "'set_pairs' expects exactly one of 'index' and 'ptr'"
        )
    device = state_index.device
    if index is not None:
        both = torch.cat([state_index, index])
        num_sets = int(both.max()) + 1 if both.numel() else 0
        _check_range(index, num_sets, 'index')
        ptr, perm = group(index.long(), num_sets)
    else:
        assert ptr is not None
        perm = torch.arange(int(ptr[-1]), device=device)
    _check_range(state_index, ptr.size(0) - 1, 'state_index')
    count = ptr.diff()[state_index]  # patterns of every state, [S]
    states = torch.arange(state_index.size(0), device=device)
    states = states.repeat_interleave(count)  # [P]
    first = count.cumsum(0) - count
    place = torch.arange(states.size(0), device=device) - first[states]
    return torch.stack([states, perm[ptr[state_index[states]] + place].long()])


def _widen(stored: Tensor, dim: int) -> Tensor:
    """Axes for several states of a set, `[N, *, d]` to `[N, 1, *, d]`."""
    ones = [1] * (dim - stored.dim())
    return stored.view(stored.size(0), *ones, *stored.shape[1:])


def _check_ptr(ptr: Tensor, size: int, num_sets: int | None) -> None:
    if ptr.dim() != 1 or ptr.size(0) == 0:
        raise ValueError(
            f"'ptr' must have the shape [B + 1], B >= 0 "
            f'(got {list(ptr.shape)})'
        )
    if num_sets is not None and ptr.size(0) != num_sets + 1:
        raise ValueError(
            f"'ptr' must hold the bounds of {num_sets} sets, "
            f'[{num_sets + 1}] (got [{ptr.size(0)}])'
        )
    if torch.compiler.is_compiling():
        return
    rises = bool((ptr.diff() >= 0).all()) and int(ptr[0]) == 0
    if not rises or int(ptr[-1]) != size:
        raise ValueError(
            f"'ptr' must rise from 0 to the number of patterns, {size} "
            f'(it goes from {int(ptr[0])} to {int(ptr[-1])})'
        )


def _check_range(index: Tensor, num_sets: int, name: str) -> None:
    if torch.compiler.is_compiling() or index.numel() == 0:
        return
    low, high = (int(v) for v in torch.aminmax(index))
    if low < 0 or high >= num_sets:
        raise IndexError(
            f"'{name}' names set {low if low < 0 else high}, but there are "
            f'only {num_sets} (0 to {num_sets - 1})'
        )
