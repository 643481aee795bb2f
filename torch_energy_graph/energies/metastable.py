r"""What a retrieved state is: one pattern, a cluster, or the mean of all.

A fixed point of retrieval is a weighted mean of patterns. The number k of
patterns that carry most of the weight says of which kind it is: one pattern
(large :math:`\beta`), a few that resemble each other (a *metastable* state),
or most of the set (small :math:`\beta`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .sets import DenseSets, Sets, sets_of

__all__ = ['METASTABLE_KINDS', 'metastable_kind', 'patterns_in_use']

METASTABLE_KINDS = ('empty', 'single', 'cluster', 'global')


def patterns_in_use(
    weights: Tensor,
    mass: float = 0.9,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    num_sets: int | None = None,
) -> Tensor:
    r"""Least number k of patterns that carry a share of all weight.

    Args:
        weights (Tensor): Weights :math:`\ge 0` of
            :func:`.hopfield_associate`, :math:`[*, N]`; with :obj:`index` or
            :obj:`ptr` :math:`[N, *]`.
        mass (float, optional): The share, between 0 and 1.
            (default: :obj:`0.9`)
        index (LongTensor, optional): Set of every pattern, :math:`[N]`, in
            any order.
        ptr (LongTensor, optional): Boundaries of sorted sets,
            :math:`[B + 1]`; an alternative to :obj:`index`.
        num_sets (int, optional): Number of sets, with :obj:`index`.
            (default: largest index + 1)

    Returns:
        LongTensor: :math:`[*]`, or :math:`[B, *]` with :obj:`index` or
        :obj:`ptr`; 0 where there is no weight.

    Raises:
        ValueError: If the share is out of range or the sets do not fit.
        IndexError: If an index lies outside of the sets.
    """
    sets = sets_of(weights.size(0), index, ptr, num_sets)
    return _in_use(sets, weights, mass)


def metastable_kind(
    weights: Tensor,
    mass: float = 0.9,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    num_sets: int | None = None,
) -> Tensor:
    r"""Kind of every retrieved state, a position in `METASTABLE_KINDS`.

    ``'single'`` if one pattern carries the share :obj:`mass` of the weight,
    ``'global'`` if that takes more than half of the set, ``'cluster'``
    otherwise, and ``'empty'`` without weight. The arguments are those of
    :func:`patterns_in_use`; for a fixed point they must be the weights at
    it, of a retrieval with enough :obj:`steps` or :obj:`tol`.

    Returns:
        LongTensor: :math:`[*]`, or :math:`[B, *]` with :obj:`index` or
        :obj:`ptr`.
    """
    sets = sets_of(weights.size(0), index, ptr, num_sets)
    count = _in_use(sets, weights, mass)
    size = sets.total(torch.ones_like(weights))
    kind = torch.full_like(count, METASTABLE_KINDS.index('cluster'))
    kind[2 * count > size] = METASTABLE_KINDS.index('global')
    kind[count == 1] = METASTABLE_KINDS.index('single')
    kind[count == 0] = METASTABLE_KINDS.index('empty')
    return kind


def _in_use(sets: Sets, weights: Tensor, mass: float) -> Tensor:
    if not 0 < mass < 1:
        raise ValueError(f"'mass' must be between 0 and 1 (got {mass})")
    rounding = 4 * torch.finfo(weights.dtype).eps
    weights = weights.detach().double()
    needed = (mass - rounding) * sets.total(weights)
    before = _heavier(sets, weights)
    # a pattern counts if those before it fall short
    counts = before < sets.spread(needed)
    return sets.total((counts & (weights > 0)).long())


def _heavier(sets: Sets, weights: Tensor) -> Tensor:
    """Weight of all patterns that stand before each, heaviest first."""
    axis = -1 if isinstance(sets, DenseSets) else 0
    order = weights.argsort(dim=axis, descending=True, stable=True)
    ordered = weights.gather(axis, order)
    if isinstance(sets, DenseSets):
        before = ordered.cumsum(-1) - ordered
    else:
        ids = sets.ids.view(-1, *[1] * (weights.dim() - 1))
        by_set = (
            ids.expand_as(order).gather(0, order).argsort(dim=0, stable=True)
        )
        order, ordered = order.gather(0, by_set), ordered.gather(0, by_set)
        whole = sets.total(weights)
        start = whole.cumsum(0) - whole
        ids = ids.expand_as(order).gather(0, order)
        before = ordered.cumsum(0) - ordered - start.gather(0, ids)
    return torch.empty_like(before).scatter(axis, order, before)
