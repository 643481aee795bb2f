"""What happened during a descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_energy_graph.extras import require

__all__ = ['EnergyTrace']


@dataclass(frozen=True)
class EnergyTrace:
    r"""Energies and steps of a descent of T steps; detached from autograd.

    Args:
        energy (Tensor): Energy before every step and after the last,
            :math:`[T + 1]`, or :math:`[T + 1, B]` for a batch of graphs.
        grad_norm (Tensor): Norm of :math:`\partial E / \partial g` at every
            step, :math:`[T]` or :math:`[T, B]`.
        step_size (Tensor): Step sizes, :math:`[T]`, or :math:`[T, N]` when
            every node has its own.
        change (Tensor): Largest change of an activation g in every step,
            :math:`[T]` or :math:`[T, B]`; a descent has converged when it
            vanishes, while the state x itself may drift on.
    """

    energy: Tensor
    grad_norm: Tensor
    step_size: Tensor
    change: Tensor

    @property
    def num_steps(self) -> int:
        """Number of steps T."""
        return self.grad_norm.size(0)

    def is_monotone(self, tol: float = 1e-6) -> bool:
        r"""Whether no step raised the energy of any graph.

        Args:
            tol (float, optional): Rise that still counts as rounding,
                relative to :math:`1 + |E|`. (default: :obj:`1e-6`)

        Returns:
            bool: True also for a trace without steps.
        """
        rise = self.energy.diff(dim=0)
        allowed = tol * (1 + self.energy[:-1].abs())
        return bool((rise <= allowed).all())

    def plot(self, ax: Any = None) -> Any:
        """Draws the energy over the steps (needs matplotlib).

        Args:
            ax (matplotlib.axes.Axes, optional): Where to draw.
                (default: new axes)

        Returns:
            matplotlib.axes.Axes: The axes; nothing is shown.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        if ax is None:
            pyplot = require('matplotlib.pyplot', 'plot', 'pictures')
            _, ax = pyplot.subplots()
        ax.plot(torch.arange(self.num_steps + 1).numpy(), self.energy.cpu())
        ax.set_xlabel('step')
        ax.set_ylabel('energy')
        return ax
