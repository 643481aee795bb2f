r"""Two penalties on energies that need no second derivative.

.. math::
    V = \frac{1}{B} \sum_b (E_b - \bar E)^2                           (1)

    M = \overline{\max(E^\mathrm{in} - m_\mathrm{in},\, 0)^2}
      + \overline{\max(m_\mathrm{out} - E^\mathrm{out},\, 0)^2}       (2)

(1) keeps the energies of known inputs together, so that others stand out. It
is a term of NG-EBM's released code that its paper does not mention. (2) needs
examples of other inputs (Liu et al. 2020; GNNSafe++, Wu et al. 2023). Add
either to a cross-entropy, with a weight of your own.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from torch_energy_graph.energies.classifier import free_energy

__all__ = ['EnergyMarginLoss', 'EnergyVarianceLoss']


class EnergyVarianceLoss(Module):
    r"""Variance of the energies of known inputs, Eq. (1).

    Args:
        multi_label (bool, optional): As in :func:`free_energy`.
            (default: :obj:`False`)

    Example:
        >>> logits = torch.tensor([[0.0, 0.0], [2.0, 2.0]])
        >>> EnergyVarianceLoss()(logits)  # energies -log 2 and -2 - log 2
        tensor(1.)
    """

    def __init__(self, multi_label: bool = False) -> None:
        super().__init__()
        self.multi_label = multi_label

    def forward(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        r"""Return V, a scalar.

        Args:
            logits (Tensor): :math:`[N, K]`.
            mask (Tensor, optional): Rows that count, bool :math:`[N]` or
                indices. (default: all)
        """
        energy = free_energy(logits, multi_label=self.multi_label)
        energy = energy if mask is None else energy[mask]
        if energy.numel() == 0:
            raise ValueError("'EnergyVarianceLoss' got no rows; check 'mask'")
        return energy.var(correction=0)

    def __repr__(self) -> str:
        return f'{type(self).__name__}()'


class EnergyMarginLoss(Module):
    r"""Known inputs below one energy, others above another, Eq. (2).

    The two means count the same whatever the sizes of the sets. Results
    depend on the margins: choose them on validation data, in the range of the
    energies of a classifier trained without.

    Args:
        m_in (float): Energy that known inputs shall not exceed.
        m_out (float): Energy that others shall reach, above :obj:`m_in`.

    Example:
        >>> loss = EnergyMarginLoss(m_in=-5.0, m_out=-1.0)
        >>> loss(torch.tensor([-6.0, -4.0]), torch.tensor([-3.0, 0.0]))
        tensor(2.5000)
    """

    def __init__(self, m_in: float, m_out: float) -> None:
        super().__init__()
        if not m_in < m_out:
            raise ValueError(
                f"'EnergyMarginLoss' expects m_in < m_out, since known inputs "
                f'have low energies (got {m_in} and {m_out})'
            )
        self.m_in = m_in
        self.m_out = m_out

    def forward(self, energy_in: Tensor, energy_out: Tensor) -> Tensor:
        r"""Return M, a scalar.

        Args:
            energy_in (Tensor): Energies of known inputs, :math:`[N]`, after
                propagation if scores are propagated.
            energy_out (Tensor): Energies of others, :math:`[M]`.
        """
        if energy_in.numel() == 0 or energy_out.numel() == 0:
            raise ValueError(
                f"'EnergyMarginLoss' expects energies of both kinds (got "
                f'{energy_in.numel()} known and {energy_out.numel()} others)'
            )
        above = torch.relu(energy_in - self.m_in).square().mean()
        below = torch.relu(self.m_out - energy_out).square().mean()
        return above + below  # (2)

    def __repr__(self) -> str:
        return f'{type(self).__name__}(m_in={self.m_in}, m_out={self.m_out})'
