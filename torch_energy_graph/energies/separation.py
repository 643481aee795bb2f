r"""Separation functions: from scores of patterns to weights on them.

Each is the gradient of a convex function, the conjugate of a negative
entropy :math:`\Omega` on the simplex,

.. math::
    \Omega^*(z) = \max_p\; p^\top z - \Omega(p), \qquad
    \mathrm{sep}(z) = \nabla \Omega^*(z)                             (1)

=============  =======================================  ==================
separation     :math:`\Omega(p)`                        weights
=============  =======================================  ==================
``softmax``    :math:`\sum_i p_i \log p_i`              all positive
``sparsemax``  :math:`\frac12 (\sum_i p_i^2 - 1)`       some exactly 0
``entmax15``   :math:`\frac43 (\sum_i p_i^{3/2} - 1)`   some exactly 0
``softmax1``   as softmax, with one more entry of       sum below 1
               score 0
=============  =======================================  ==================

(Tsallis entropies of order 1, 2 and 3/2: Peters, Niculae, Martins 2019.) So
:math:`\Omega^*` of softmax is log-sum-exp. The entropy is zero at one
pattern and largest, :math:`\Omega^*(0)`, at the mean over all.

The sparse two are :math:`p = (s z - \tau)_+^a` with s = a = 1 and
s = 1/2, a = 2. The threshold solves

.. math::
    h(\tau) = \Big( \sum_i (s z_i - \tau)_+^a \Big)^{1/a} = 1        (2)

h is convex and falls, so Newton's steps from the left are monotone, and
each at least quarters the product of :math:`h - 1` and slope. With
:math:`\tau` and so the support at hand, (2) is solved in closed form, which
autograd can differentiate any number of times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_energy_graph.ops import scatter_softmax

from .sets import DenseSets, RaggedSets, Sets, sets_of

__all__ = [
    'SEPARATIONS',
    'separate',
    'separate_over',
    'separation_conjugate',
    'separation_conjugate_over',
]

SEPARATIONS = ('softmax', 'sparsemax', 'entmax15', 'softmax1')

# a of Eq. (2)
_POWERS = {'sparsemax': 1, 'entmax15': 2}
# quarters a product of at most N * N to less than the float64 epsilon
_NEWTON_STEPS = 64


def separate(
    scores: Tensor,
    separation: str = 'softmax',
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    num_sets: int | None = None,
) -> Tensor:
    r"""Weights of the patterns of every set.

    A score of :math:`-\infty` leaves a pattern out; a set without patterns
    gets zeros.

    Args:
        scores (Tensor): :math:`z`, :math:`[*, N]`, sets along the last axis;
            with :obj:`index` or :obj:`ptr` :math:`[N, *]`.
        separation (str, optional): One of :obj:`SEPARATIONS`.
            (default: :obj:`"softmax"`)
        index (LongTensor, optional): Set of every pattern, :math:`[N]`, in
            any order.
        ptr (LongTensor, optional): Boundaries of sorted sets,
            :math:`[B + 1]`; an alternative to :obj:`index`.
        num_sets (int, optional): Number of sets, with :obj:`index`.
            (default: largest index + 1)

    Returns:
        Tensor: Weights :math:`\ge 0` of the shape of :obj:`scores`; half
        types are computed in float32.

    Raises:
        ValueError: If the separation is unknown or the sets do not fit.
        IndexError: If an index lies outside of the sets.
    """
    sets = sets_of(scores.size(0), index, ptr, num_sets)
    return separate_over(sets, scores, separation)


def separation_conjugate(
    scores: Tensor,
    separation: str = 'softmax',
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    num_sets: int | None = None,
) -> Tensor:
    r"""Conjugate :math:`\Omega^*` of every set; its gradient are the weights.

    The arguments are those of :func:`separate`.

    Returns:
        Tensor: :math:`[*]`, or :math:`[B, *]` with :obj:`index` or
        :obj:`ptr`, float32 at least; :math:`-\infty` for a set without
        patterns (0 with :obj:`"softmax1"`).
    """
    sets = sets_of(scores.size(0), index, ptr, num_sets)
    return separation_conjugate_over(sets, scores, separation)


def separate_over(sets: Sets, scores: Tensor, separation: str) -> Tensor:
    """Evaluates :func:`separate` over sets of either layout."""
    z = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if separation == 'softmax':
        weights = _softmax(sets, z)
    elif separation == 'softmax1':
        weights, _ = _softmax1(sets, z)
    else:
        power = _power(separation)
        root, _ = _root(sets, z, power)
        weights = root.pow(power)
    return weights.to(scores.dtype)


def separation_conjugate_over(
    sets: Sets, scores: Tensor, separation: str
) -> Tensor:
    """Evaluates :func:`separation_conjugate` over either layout."""
    z = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if separation == 'softmax':
        return _logsumexp(sets, z)
    if separation == 'softmax1':
        _, conjugate = _softmax1(sets, z)
        return conjugate
    power = _power(separation)
    root, top = _root(sets, z, power)
    z = z - sets.spread(top)
    weights = root.pow(power)
    match = sets.total(weights * z.masked_fill(root == 0, 0.0))
    order = 1 + 1 / power  # of the entropy
    omega = (sets.total(root.pow(power + 1)) - 1) / (order * (order - 1))
    empty = sets.largest(scores.detach()) == -torch.inf
    return (top + match - omega).masked_fill(empty, -torch.inf)


def _softmax(sets: Sets, z: Tensor) -> Tensor:
    if isinstance(sets, RaggedSets):
        return scatter_softmax(z, sets.ids, num_nodes=sets.num_sets)
    empty = (z == -torch.inf).all(-1, keepdim=True)
    return z.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def _logsumexp(sets: Sets, z: Tensor) -> Tensor:
    top = _top(sets, z)
    total = sets.total((z - sets.spread(top)).exp())
    empty = total == 0
    lse = top + total.masked_fill(empty, 1.0).log()
    return lse.masked_fill(empty, -torch.inf)


def _softmax1(sets: Sets, z: Tensor) -> tuple[Tensor, Tensor]:
    top = _top(sets, z).clamp(min=0.0)  # the further entry has score 0
    weights = (z - sets.spread(top)).exp()
    total = sets.total(weights) + (-top).exp()
    return weights / sets.spread(total), top + total.log()


def _root(sets: Sets, z: Tensor, power: int) -> tuple[Tensor, Tensor]:
    """`(s z - tau)_+` of Eq. (2), and the largest score of every set."""
    top = _top(sets, z)
    z = (z - sets.spread(top)) / power
    kept = z > sets.spread(_threshold(z.detach(), *_layout(sets), power))
    count = sets.total(kept.to(z.dtype)).clamp(min=1.0)
    mean = sets.total(z.masked_fill(~kept, 0.0)) / count
    if power == 1:
        tau = mean - 1 / count
    else:
        rest = (z - sets.spread(mean)).masked_fill(~kept, 0.0)
        tau = mean - ((1 - sets.total(rest.square())) / count).sqrt()
    return (z - sets.spread(tau)).relu(), top


def _top(sets: Sets, z: Tensor) -> Tensor:
    """Largest finite score of every set, 0 where there is none."""
    top = sets.largest(z.detach())
    return top.masked_fill(top == -torch.inf, 0.0)


def _layout(sets: Sets) -> tuple[Tensor | None, int]:
    return sets if isinstance(sets, RaggedSets) else (None, 0)


# one operator, so that compiled and exported layers may stop early
@torch.library.custom_op(
    'torch_energy_graph::separation_threshold', mutates_args=()
)
def _threshold(
    z: Tensor, index: Tensor | None, num_sets: int, power: int
) -> Tensor:
    """Solves Eq. (2) for scores `s z` whose largest is 0."""
    sets = DenseSets() if index is None else RaggedSets(index, num_sets)
    tau = torch.full_like(sets.total(z), -1.0)
    for _ in range(_NEWTON_STEPS):
        root = (z - sets.spread(tau)).relu()
        norm = sets.total(root.pow(power)).pow(1 / power)
        slope = sets.total(root.sign() * root.pow(power - 1))
        slope = slope / norm.pow(power - 1)
        # below 1 by rounding, or without patterns: there is nothing to do
        moved = torch.where(norm > 1, tau + (norm - 1) / slope, tau)
        if torch.equal(moved, tau):
            break
        tau = moved
    return tau


@_threshold.register_fake
def _threshold_fake(
    z: Tensor, index: Tensor | None, num_sets: int, power: int
) -> Tensor:
    if index is None:
        return z.new_empty(z.shape[:-1])
    return z.new_empty((num_sets, *z.shape[1:]))


def _power(separation: str) -> int:
    if separation not in _POWERS:
        raise ValueError(
            f"'separation' must be one of {list(SEPARATIONS)} "
            f'(got {separation!r})'
        )
    return _POWERS[separation]
