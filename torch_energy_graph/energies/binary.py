r"""Binary memories: the classical network and the dense associative memory.

States and stored patterns :math:`x_1, \dots, x_N` have entries -1 and 1 and
d coordinates. The classical network (Hopfield 1982) puts patterns into a
matrix,

.. math::
    W = \frac{1}{d} \sum_i x_i x_i^\top, \quad W_{ll} := 0, \qquad
    E(\xi) = -\frac12 \xi^\top W \xi + \xi^\top b                     (1)

    \xi_l \leftarrow \mathrm{sgn}\, (W \xi - b)_l                     (2)

The dense associative memory keeps the patterns,

.. math::
    E(\xi) = -\sum_i F(x_i^\top \xi), \qquad
    \xi_l \leftarrow \mathrm{sgn} \big(
        E(\xi^{(l-)}) - E(\xi^{(l+)}) \big)                           (3)

with :math:`F(z) = z^a` (Krotov, Hopfield 2016) or :math:`\exp(z)`
(Demircigil et al. 2017); :math:`\xi^{(l\pm)}` is :math:`\xi` with coordinate
l set to 1 or -1. A tie leaves the coordinate as it is. One coordinate after
the other, neither (2) nor (3) raises E, so a state comes to rest. All
coordinates at once, (2) ends at rest or in a cycle of length two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

__all__ = ['ClassicHopfield', 'DenseAssociativeMemory']


class _BinaryMemory(ABC):
    """Stored patterns, and sweeps over the coordinates of states."""

    def __init__(self, patterns: Tensor) -> None:
        if patterns.dim() != 2 or patterns.numel() == 0:
            raise ValueError(
                f"'patterns' must have the shape [N, d] "
                f'(got {list(patterns.shape)})'
            )
        self.patterns = _signs(patterns, 'patterns')

    @property
    def dim(self) -> int:
        """Number of coordinates d."""
        return self.patterns.size(1)

    @abstractmethod
    def energy(self, state: Tensor) -> Tensor:
        """Energy of every state, `[*, d]` to `[*]`."""

    @abstractmethod
    def _sweep(self, state: Tensor, order: list[int]) -> None:
        """Updates coordinates of `[B, d]` in place, one after the other."""

    def retrieve(
        self,
        state: Tensor,
        sweeps: int = 10,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        r"""Updates every coordinate in turn until nothing changes.

        Args:
            state (Tensor): :math:`\xi`, entries -1 and 1, :math:`[*, d]`.
            sweeps (int, optional): Number of sweeps over all coordinates, at
                most. (default: :obj:`10`)
            generator (torch.Generator, optional): Draws a new order of the
                coordinates for each sweep. (default: from first to last)

        Returns:
            Tensor: The states after the last sweep, :math:`[*, d]`.

        Raises:
            ValueError: If entries or shape are wrong, or there is no sweep.
        """
        if sweeps < 1:
            raise ValueError(f"'sweeps' must be >= 1 (got {sweeps})")
        now = self._checked(state).reshape(-1, self.dim).clone()  # [B, d]
        for _ in range(sweeps):
            before = now.clone()
            self._sweep(now, self._order(generator))
            if torch.equal(now, before):
                break
        return now.view(state.shape).to(state.dtype)

    def _order(self, generator: torch.Generator | None) -> list[int]:
        if generator is None:
            return list(range(self.dim))
        drawn = torch.randperm(
            self.dim, generator=generator, device=generator.device
        )
        return drawn.tolist()

    def _checked(self, state: Tensor) -> Tensor:
        if state.dim() == 0 or state.size(-1) != self.dim:
            raise ValueError(
                f"'state' must have {self.dim} coordinates, like the "
                f'patterns (got the shape {list(state.shape)})'
            )
        return _signs(state, 'state')


class ClassicHopfield(_BinaryMemory):
    r"""Classical Hopfield network, Eq. (1) and (2).

    It holds about :math:`0.138\, d` random patterns with few errors, and
    :math:`d / (2 \log d)` without.

    Args:
        patterns (Tensor): :math:`x`, entries -1 and 1, :math:`[N, d]`.
        bias (Tensor, optional): b, :math:`[d]`. (default: zero)
        zero_diagonal (bool, optional): If :obj:`False`, :math:`W_{ll}` stays
            :math:`N / d`: a coordinate supports itself.
            (default: :obj:`True`)

    Raises:
        ValueError: If entries or shapes are wrong.
    """

    def __init__(
        self,
        patterns: Tensor,
        bias: Tensor | None = None,
        zero_diagonal: bool = True,
    ) -> None:
        super().__init__(patterns)
        self._sum = self.patterns.t() @ self.patterns  # d W, in integers
        if zero_diagonal:
            self._sum.fill_diagonal_(0.0)
        if bias is not None and bias.shape != (self.dim,):
            raise ValueError(
                f"'bias' must hold one value per coordinate, [{self.dim}] "
                f'(got {list(bias.shape)})'
            )
        self.bias = (
            self._sum.new_zeros(self.dim)
            if bias is None
            else bias.to(self._sum)
        )

    @property
    def weight(self) -> Tensor:
        """Matrix W, `[d, d]`."""
        return self._sum / self.dim

    def energy(self, state: Tensor) -> Tensor:
        """Energy of every state, Eq. (1), `[*, d]` to `[*]` in float64."""
        state = self._checked(state)
        pull = (state @ self._sum * state).sum(-1) / self.dim
        return -0.5 * pull + state @ self.bias

    def update(self, state: Tensor) -> Tensor:
        """Updates all coordinates at once, Eq. (2), `[*, d]`.

        The energy may rise. A state at rest is its own update.
        """
        now = self._checked(state)
        field = now @ self._sum / self.dim - self.bias
        return torch.where(field == 0, now, field.sign()).to(state.dtype)

    def _sweep(self, state: Tensor, order: list[int]) -> None:
        for coordinate in order:
            pull = state @ self._sum[coordinate] / self.dim
            _set(state, coordinate, pull - self.bias[coordinate])


class DenseAssociativeMemory(_BinaryMemory):
    r"""Dense associative memory, Eq. (3).

    It holds about :math:`d^{a-1}` patterns (up to a factor), or
    :math:`2^{d/2}` with the exponential.

    Args:
        patterns (Tensor): :math:`x`, entries -1 and 1, :math:`[N, d]`.
        interaction (str, optional): :obj:`"power"`, :math:`F(z) = z^a`, or
            :obj:`"exp"`, :math:`F(z) = \exp(z)`. (default: :obj:`"exp"`)
        degree (int, optional): :math:`a \ge 2` of :obj:`"power"`.
            (default: :obj:`3`)

    Raises:
        ValueError: If entries, a shape or an option are wrong.
    """

    def __init__(
        self, patterns: Tensor, interaction: str = 'exp', degree: int = 3
    ) -> None:
        super().__init__(patterns)
        if interaction not in ('power', 'exp'):
            raise ValueError(
                f"'interaction' must be 'power' or 'exp' (got {interaction!r})"
            )
        if degree < 2 or degree != int(degree):
            raise ValueError(
                f"'degree' must be an integer >= 2 (got {degree})"
            )
        self.interaction, self.degree = interaction, int(degree)

    def energy(self, state: Tensor) -> Tensor:
        r"""Energy of every state, :math:`[*, d]` to :math:`[*]` in float64.

        So that it stays finite for every d, it is
        :math:`-\sum_i (x_i^\top \xi / d)^a`, that of Eq. (3) over
        :math:`d^a`, or :math:`-\log \sum_i \exp(x_i^\top \xi)`, which orders
        states as Eq. (3) does.
        """
        overlap = self._checked(state) @ self.patterns.t()  # [*, N]
        if self.interaction == 'exp':
            return -overlap.logsumexp(-1)
        return -(overlap / self.dim).pow(self.degree).sum(-1)

    def _sweep(self, state: Tensor, order: list[int]) -> None:
        overlap = state @ self.patterns.t()  # [B, N]
        for coordinate in order:
            x = self.patterns[:, coordinate]  # [N]
            old = state[:, coordinate].clone()
            rest = overlap - old.unsqueeze(-1) * x
            _set(state, coordinate, self._gain(rest, x))
            overlap = rest + state[:, coordinate].unsqueeze(-1) * x

    def _gain(self, rest: Tensor, x: Tensor) -> Tensor:
        """Positive multiple of the energy of -1 minus that of 1, `[B]`."""
        if self.interaction == 'exp':
            # exp(r + x) - exp(r - x) = 2 sinh(1) x exp(r)
            return rest.softmax(-1) @ x
        scale = 2 ** self.dim.bit_length()  # exact: a tie stays a tie
        high, low = (rest + x) / scale, (rest - x) / scale
        return (high.pow(self.degree) - low.pow(self.degree)).sum(-1)


def _set(state: Tensor, coordinate: int, drive: Tensor) -> None:
    """Sets a coordinate to the sign of its drive; a tie keeps it."""
    old = state[:, coordinate]
    state[:, coordinate] = torch.where(drive == 0, old, drive.sign())


def _signs(value: Tensor, name: str) -> Tensor:
    """Entries as float64, so that sums of them are exact."""
    signs = value.detach().double()
    wrong = signs.abs() != 1
    if bool(wrong.any()):
        raise ValueError(
            f"'{name}' must have entries -1 and 1 (got "
            f'{signs[wrong][0].item()}); turn bits into 2 * bits - 1'
        )
    return signs
