r"""Modern Hopfield retrieval: a state moves to the patterns it resembles.

With stored patterns :math:`x_1, \dots, x_N` (the rows of X), a state
:math:`\xi`, a separation function and its conjugate :math:`\Omega^*`
(:mod:`.separation`), and :math:`M = \max_i \lVert x_i \rVert`,

.. math::
    E(\xi) = -\frac{1}{\beta} \big( \Omega^*(\beta X \xi + b)
             - \Omega^*(0) \big) + \frac12 \lVert \xi \rVert^2
             + \frac12 M^2                                           (1)

    f(\xi) = X^\top \mathrm{sep}(\beta X \xi + b)
           = \xi - \frac{\partial E}{\partial \xi}                   (2)

    \xi \leftarrow \xi + \alpha\, (f(\xi) - \xi)                     (3)

(Ramsauer et al. 2020, eq. 2 and 3, where sep is softmax, b = 0 and
:math:`\alpha = 1`.) The first term of (1) is concave, so E lies below
:math:`\frac12 \lVert \xi' - f(\xi) \rVert^2` plus a constant, and touches it
at :math:`\xi' = \xi`. Hence, for every separation function,

.. math::
    E(\xi') - E(\xi) \le -\frac12 \alpha (2 - \alpha)
                         \lVert f(\xi) - \xi \rVert^2                (4)

and no step with :math:`0 < \alpha < 2` raises E. Without a bias,
:math:`0 \le E`, and :math:`E \le 2 M^2` in the convex hull of the patterns
(and of zero, for ``softmax1``).

A set without patterns has :math:`f = 0` and
:math:`E = \frac12 \lVert \xi \rVert^2`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .separation import (
    SEPARATIONS,
    separate_over,
    separation_conjugate_over,
)
from .sets import RaggedSets, Sets, set_pairs, sets_of

__all__ = [
    'hopfield_associate',
    'hopfield_retrieve',
    'retrieval_energy',
    'retrieval_energy_grad',
]


def hopfield_retrieve(
    state: Tensor,
    stored: Tensor,
    beta: float | Tensor = 1.0,
    steps: int = 1,
    tol: float | None = None,
    separation: str = 'softmax',
    damping: float = 1.0,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    state_index: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    r"""Moves every state by Eq. (3) towards the patterns of its set.

    There are three layouts. Further axes ``*`` (such as heads) broadcast.

    - *Dense*: states :math:`[*, S, d]`, patterns :math:`[*, N, d]`.
    - *Ragged*, with :obj:`index` or :obj:`ptr`: patterns :math:`[N, *, d]`
      of all sets in one list, states :math:`[B, *, d]`, for example
      :math:`[B, S, H, d]` for patterns :math:`[N, H, d]`.
    - *Ragged with* :obj:`state_index`: states :math:`[S, *, d]`, any number
      of a set; all pairs of a state and a pattern of its set are formed.

    Args:
        state (Tensor): :math:`\xi`.
        stored (Tensor): X.
        beta (float or Tensor, optional): :math:`\beta \ge 0`, one or a
            tensor that broadcasts with the states without their last axis,
            such as :math:`[H]` for states :math:`[B, S, H, d]`.
            (default: :obj:`1.0`)
        steps (int, optional): Number of steps, with :obj:`tol` at most.
            (default: :obj:`1`)
        tol (float, optional): A state that moved by no more than this
            (Euclidean distance) rests, whatever others do. Unless compiled,
            every step reads from the device whether all rest.
            (default: :obj:`None`)
        separation (str, optional): :obj:`"softmax"`, :obj:`"sparsemax"`,
            :obj:`"entmax15"` or :obj:`"softmax1"`.
            (default: :obj:`"softmax"`)
        damping (float, optional): :math:`0 < \alpha < 2`.
            (default: :obj:`1.0`)
        index (LongTensor, optional): Set of every pattern, :math:`[N]`, in
            any order.
        ptr (LongTensor, optional): Boundaries of sorted sets,
            :math:`[B + 1]`; an alternative to :obj:`index`.
        state_index (LongTensor, optional): Set of every state, :math:`[S]`,
            in any order.
        bias (Tensor, optional): b, which broadcasts with the scores,
            :math:`[*, S, N]` or :math:`[N, *]`, or :math:`[P, *]` for the
            pairs of :func:`.set_pairs`; :math:`-\infty` leaves a pattern
            out.

    Returns:
        Tensor: The states after the last step.

    Raises:
        ValueError: If an option is out of range or shapes do not fit.
        IndexError: If an index lies outside of the sets.
    """
    options = steps, tol, separation, damping
    sets = index, ptr, state_index, bias
    return hopfield_associate(state, stored, beta, *options, *sets)[0]


def hopfield_associate(
    state: Tensor,
    stored: Tensor,
    beta: float | Tensor = 1.0,
    steps: int = 1,
    tol: float | None = None,
    separation: str = 'softmax',
    damping: float = 1.0,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    state_index: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""States, and the weights of the patterns in their last step.

    The arguments are those of :func:`hopfield_retrieve`.

    Returns:
        (Tensor, Tensor): The states, and sep of Eq. (2) where the last step
        of each began, of the shape of the scores.
    """
    _check_options(steps, tol, damping)
    _check_beta(beta, positive=False)
    memory = _memory(
        state, stored, beta, separation, index, ptr, state_index, bias
    )
    weights, moving = None, None
    for _ in range(steps):
        new = memory.weights(state)
        target = memory.sets.read(new, memory.stored)
        # without damping, no rounding: the step is f itself
        moved = target if damping == 1 else state + damping * (target - state)
        if weights is not None and moving is not None:
            new = torch.where(memory.sets.spread(moving), new, weights)
            moved = torch.where(moving.unsqueeze(-1), moved, state)
        if tol is not None:
            moving = (moved - state).detach().norm(dim=-1) > tol
        state, weights = moved, new
        if moving is not None and _all_rest(moving):
            break
    assert weights is not None
    return state, weights


def retrieval_energy(
    state: Tensor,
    stored: Tensor,
    beta: float | Tensor = 1.0,
    separation: str = 'softmax',
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    state_index: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    r"""Energy of every state, Eq. (1).

    The arguments are those of :func:`hopfield_retrieve`, with
    :math:`\beta > 0`. :math:`\Omega^*(0)` and M count the patterns of the
    set that :obj:`bias` does not leave out.

    Returns:
        Tensor: The shape of the states without their last axis, float32 at
        least.
    """
    _check_beta(beta, positive=True)
    state, stored = _wide(state), _wide(stored)
    memory = _memory(
        state, stored, beta, separation, index, ptr, state_index, bias
    )
    scores = memory.scores(state)
    at_zero = memory.zeros(scores.dim())
    norms = memory.stored.square().sum(-1)
    norms = memory.sets.per_pattern(norms, scores.dim()) + at_zero
    radius = _finite(memory.sets.largest(norms))  # M^2
    gain = memory.conjugate(scores) - memory.conjugate(at_zero)
    return 0.5 * (state.square().sum(-1) + radius) - gain / beta


def retrieval_energy_grad(
    state: Tensor,
    stored: Tensor,
    beta: float | Tensor = 1.0,
    separation: str = 'softmax',
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    state_index: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    r"""Gradient :math:`\xi - f(\xi)` of the summed energy, Eq. (2).

    The arguments are those of :func:`hopfield_retrieve`.
    """
    sets = index, ptr, state_index, bias
    target = hopfield_retrieve(
        state, stored, beta, 1, None, separation, 1.0, *sets
    )
    return state - target


class _Memory(NamedTuple):
    """Patterns of sets, and how they are weighted."""

    stored: Tensor
    sets: Sets
    beta: float | Tensor
    separation: str
    bias: Tensor | None

    def scores(self, state: Tensor) -> Tensor:
        scale = self.beta
        if isinstance(scale, Tensor):
            scale = scale.to(state.dtype).unsqueeze(-1)
        scores = self.sets.overlap(state * scale, self.stored)
        if self.bias is None:
            return scores
        if not _fits(self.bias, scores):
            raise ValueError(
                f"'bias' must broadcast to the scores, "
                f'{list(scores.shape)} (got {list(self.bias.shape)})'
            )
        return scores + self.bias

    def weights(self, state: Tensor) -> Tensor:
        return separate_over(self.sets, self.scores(state), self.separation)

    def conjugate(self, scores: Tensor) -> Tensor:
        """Conjugate of every set, 0 for those without patterns."""
        return _finite(
            separation_conjugate_over(self.sets, scores, self.separation)
        )

    def zeros(self, dim: int) -> Tensor:
        """Scores 0, and -inf of patterns left out, aligned with scores."""
        zeros = self.stored.new_zeros(self.stored.shape[:-1])
        zeros = self.sets.per_pattern(zeros, dim)
        if self.bias is None:
            return zeros
        return zeros.masked_fill(self.bias == -torch.inf, -torch.inf)


def _memory(
    state: Tensor,
    stored: Tensor,
    beta: float | Tensor,
    separation: str,
    index: Tensor | None,
    ptr: Tensor | None,
    state_index: Tensor | None,
    bias: Tensor | None,
) -> _Memory:
    if separation not in SEPARATIONS:
        raise ValueError(
            f"'separation' must be one of {list(SEPARATIONS)} "
            f'(got {separation!r})'
        )
    ragged = index is not None or ptr is not None
    if state_index is not None and not ragged:
        raise ValueError(
            "'state_index' needs 'index' or 'ptr' of the patterns"
        )
    _check_patterns(state, stored, ragged)
    num_sets = state.size(0) if ragged and state_index is None else None
    sets = sets_of(stored.size(0), index, ptr, num_sets)
    if state_index is not None:
        if state_index.shape != state.shape[:1]:
            raise ValueError(
                f"'state_index' must name the set of every state, "
                f'[{state.size(0)}] (got {list(state_index.shape)})'
            )
        states, patterns = set_pairs(state_index, index, ptr)
        stored = stored.index_select(0, patterns)
        sets = RaggedSets(states, state.size(0))
    return _Memory(stored, sets, beta, separation, bias)


def _check_patterns(state: Tensor, stored: Tensor, ragged: bool) -> None:
    least = stored.dim() if ragged else 2
    fits = stored.dim() >= 2 and state.dim() >= least
    if not fits or state.size(-1) != stored.size(-1):
        shapes = (
            '[B, *, d] and [N, *, d]'
            if ragged
            else ('[*, S, d] and [*, N, d]')
        )
        raise ValueError(
            f"'state' and 'stored' must have shapes {shapes} with the same d "
            f'(got {list(state.shape)} and {list(stored.shape)})'
        )


def _check_options(steps: int, tol: float | None, damping: float) -> None:
    if steps < 1:
        raise ValueError(f"'steps' must be >= 1 (got {steps})")
    if tol is not None and not tol >= 0:
        raise ValueError(f"'tol' must be >= 0 (got {tol})")
    if not 0 < damping < 2:
        raise ValueError(
            f"'damping' must lie between 0 and 2, where the energy cannot "
            f'rise (got {damping})'
        )


def _check_beta(beta: float | Tensor, positive: bool) -> None:
    if isinstance(beta, Tensor):
        if torch.compiler.is_compiling() or beta.numel() == 0:
            return
        beta = float(beta.detach().min())
    if not (beta > 0 or (beta == 0 and not positive)):
        sign = '> 0 for an energy' if positive else '>= 0'
        raise ValueError(f"'beta' must be {sign} (got {beta})")


def _all_rest(moving: Tensor) -> bool:
    return not torch.compiler.is_compiling() and not bool(moving.any())


def _fits(value: Tensor, target: Tensor) -> bool:
    try:
        shape = torch.broadcast_shapes(value.shape, target.shape)
    except RuntimeError:
        return False
    return shape == target.shape


def _finite(value: Tensor) -> Tensor:
    """Puts 0 where there is no pattern."""
    return value.masked_fill(value == -torch.inf, 0.0)


def _wide(value: Tensor) -> Tensor:
    return value.to(torch.promote_types(value.dtype, torch.float32))
