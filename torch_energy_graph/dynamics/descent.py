r"""Descent: repeat :math:`x \leftarrow x - \alpha\, \partial E / \partial g`.

The state x moves; the energy is a function of the activation
:math:`g = \mathrm{norm}(x)`, and the gradient is taken with respect to g,
without the Jacobian of the norm (Energy Transformer, eq. 6).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint as recompute

from torch_geometric.utils import scatter

from torch_energy_graph.energies import reduce_energy
from torch_energy_graph.ops import release_freed_memory

from .trace import EnergyTrace

__all__ = ['descend']

#: Step size from the state x and the field -dE/dg, a scalar or [N].
StepRule = Callable[[Tensor, Tensor], Tensor]


def descend(
    x: Tensor,
    norm: Callable[[Tensor], Tensor],
    field: Callable[[Tensor], Tensor],
    num_steps: int,
    step_size: float | Tensor | StepRule = 0.1,
    *,
    energy: Callable[[Tensor], Tensor] | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    noise_std: float = 0.0,
    generator: torch.Generator | None = None,
    checkpoint: bool = False,
    tol: float | None = None,
) -> tuple[Tensor, EnergyTrace | None]:
    r"""Moves a state down an energy of its activations.

    .. math::
        g^t = \mathrm{norm}(x^t), \qquad
        x^{t+1} = x^t - \alpha^t \frac{\partial E}{\partial g}(g^t)
                  + \sqrt{\alpha^t}\, \eta^t

    Args:
        x (Tensor): State, :math:`[N, C]`.
        norm (callable): State to activation.
        field (callable): Activation to :math:`-\partial E/\partial g`.
        num_steps (int): Number of steps T >= 0.
        step_size (float, Tensor or callable, optional): :math:`\alpha`, or a
            rule that returns it (a scalar or :math:`[N]`) from the state and
            the field. (default: :obj:`0.1`)
        energy (callable, optional): Activation to node energies
            :math:`[N]`; when given, a trace is returned.
        batch (LongTensor, optional): Graph of every node, for the trace.
        batch_size (int, optional): Number of graphs.
        noise_std (float, optional): Standard deviation of :math:`\eta`.
            (default: :obj:`0.0`)
        generator (torch.Generator, optional): Source of the noise.
        checkpoint (bool, optional): Keep only about :math:`2 \sqrt{T}`
            states for the backward pass and recompute the steps: one more
            forward pass, or two when T > 4. (default: :obj:`False`)
        tol (float, optional): Stop early when no activation changed by more
            than this. It reads a value from the device in every step and
            does not compile. (default: :obj:`None`)

    Returns:
        (Tensor, EnergyTrace or None): The last state, and the trace if
        :obj:`energy` is given.

    Raises:
        ValueError: If :obj:`num_steps` or :obj:`noise_std` is negative.
    """
    if num_steps < 0:
        raise ValueError(f"'num_steps' must be >= 0 (got {num_steps})")
    if noise_std < 0:
        raise ValueError(f"'noise_std' must be >= 0 (got {noise_std})")
    records = _Records(energy, batch, batch_size) if energy else None

    def step(state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        force = field(norm(state))  # [N, C]
        alpha = _step(step_size, state, force)
        return state + _per_node(alpha).to(force.dtype) * force, force, alpha

    checkpoint = checkpoint and torch.is_grad_enabled()
    if checkpoint and noise_std == 0 and records is None and tol is None:
        return _checkpointed(step, x, num_steps), None
    for _ in range(num_steps):
        before = x
        if checkpoint:
            x, force, alpha = recompute(step, x, use_reentrant=False)
        else:
            x, force, alpha = step(x)
        if noise_std > 0:
            x = x + _noise(x, alpha, noise_std, generator)
        if records is not None:
            records.add(norm(before), norm(x), force, alpha)
        if tol is not None and _change(norm(before), norm(x)).max() <= tol:
            break
    return x, None if records is None else records.finish(norm(x))


def _checkpointed(
    step: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]],
    x: Tensor,
    num_steps: int,
) -> Tensor:
    """Recomputes steps within segments, and segments within the descent.

    One level would keep a state per step; two levels keep the first state of
    every segment, and during its backward pass those inside it.
    """
    device = x.device

    def release(_: Tensor | None) -> None:
        release_freed_memory(device)

    def lean_step(state: Tensor) -> Tensor:
        release_freed_memory(device)
        state, force, _ = step(state)
        if force.requires_grad and not torch.compiler.is_compiling():
            force.register_hook(release)  # before its backward pass
        return state

    def segment(state: Tensor, length: int) -> Tensor:
        for _ in range(length):
            state = recompute(lean_step, state, use_reentrant=False)
        return state

    if num_steps <= 4:
        return segment(x, num_steps)
    length = math.isqrt(num_steps - 1) + 1  # ceil of the square root
    for start in range(0, num_steps, length):
        count = min(length, num_steps - start)
        x = recompute(segment, x, count, use_reentrant=False)
    return x


@dataclasses.dataclass
class _Records:
    """Collects the trace of a descent."""

    energy: Callable[[Tensor], Tensor]
    batch: Tensor | None
    batch_size: int | None
    rows: list[tuple[Tensor, Tensor, Tensor, Tensor]] = dataclasses.field(
        default_factory=list
    )

    @torch.no_grad()
    def add(
        self, g: Tensor, g_next: Tensor, force: Tensor, alpha: Tensor
    ) -> None:
        energy, squared = self._total(g), force.square().sum(-1)  # [N]
        grad_norm = reduce_energy(squared, self.batch, self.batch_size).sqrt()
        change = self._largest(_change(g, g_next))
        self.rows.append((energy, grad_norm, alpha.detach(), change))

    @torch.no_grad()
    def finish(self, g: Tensor) -> EnergyTrace:
        last = self._total(g)
        if not self.rows:
            none = last.new_empty((0, *last.shape))
            return EnergyTrace(last.unsqueeze(0), none, none, none)
        energy, grad_norm, alpha, change = zip(*self.rows, strict=True)
        return EnergyTrace(
            torch.stack([*energy, last]),
            torch.stack(grad_norm),
            torch.stack(alpha),
            torch.stack(change),
        )

    def _total(self, g: Tensor) -> Tensor:
        return reduce_energy(self.energy(g), self.batch, self.batch_size)

    def _largest(self, value: Tensor) -> Tensor:
        if self.batch is not None:
            return scatter(
                value, self.batch, dim_size=self.batch_size, reduce='max'
            )
        return value.max() if value.numel() else value.new_zeros(())


def _step(
    step_size: float | Tensor | StepRule, x: Tensor, force: Tensor
) -> Tensor:
    if isinstance(step_size, Tensor):
        return step_size
    if callable(step_size):
        return step_size(x, force)
    return torch.full((), step_size, dtype=force.dtype, device=x.device)


def _per_node(alpha: Tensor) -> Tensor:
    return alpha.unsqueeze(-1) if alpha.dim() == 1 else alpha


def _noise(
    x: Tensor, alpha: Tensor, std: float, generator: torch.Generator | None
) -> Tensor:
    noise = torch.empty_like(x).normal_(std=std, generator=generator)
    return _per_node(alpha.detach()).sqrt().to(x.dtype) * noise


def _change(g: Tensor, g_next: Tensor) -> Tensor:
    """Largest change of every node's activation, `[N]`."""
    if g.size(-1) == 0 or g.size(0) == 0:
        return g.new_zeros(g.size(0))
    return (g_next - g).detach().abs().amax(-1)
