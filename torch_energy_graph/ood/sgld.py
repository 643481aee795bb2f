r"""Samples of low energy: Langevin steps from a buffer of earlier samples.

.. math::
    x \leftarrow x - \eta\, \frac{\partial E}{\partial x}
        + \sigma\, \xi, \qquad \xi \sim \mathcal{N}(0, I)             (1)

A chain starts where an earlier one ended, or, with probability :obj:`restart`,
uniformly within bounds. JEM's released code (Grathwohl et al. 2020) takes
:math:`\eta = 1` and :math:`\sigma = 0.01`, which is no Langevin step at
temperature 1 (that has :math:`\sigma^2 = 2 \eta`) but nearly a descent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor
from torch.nn import Module

__all__ = ['SGLDSampler']


class SGLDSampler(Module):
    r"""Sampler with a buffer, which is part of its state dict.

    Args:
        shape (sequence of int): Shape of one sample: channels of a node, or
            of an image.
        num_steps (int, optional): Steps (1) per call. (default: :obj:`20`)
        step_size (float, optional): :math:`\eta`. (default: :obj:`1.0`)
        noise_std (float, optional): :math:`\sigma`. (default: :obj:`0.01`)
        buffer_size (int, optional): Number of chains.
            (default: :obj:`10_000`)
        restart (float, optional): Probability of a fresh start.
            (default: :obj:`0.05`)
        low (float, optional): Least value of a fresh start.
            (default: :obj:`-1.0`)
        high (float, optional): Largest value. (default: :obj:`1.0`)
        clamp (float, optional): Bound of every entry of the gradient (JEM++).
            (default: :obj:`None`)
        generator (torch.Generator, optional): Of all random numbers, on the
            CPU. (default: :obj:`None`, torch's own)
    """

    buffer: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        num_steps: int = 20,
        step_size: float = 1.0,
        noise_std: float = 0.01,
        buffer_size: int = 10_000,
        restart: float = 0.05,
        low: float = -1.0,
        high: float = 1.0,
        clamp: float | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if num_steps < 1 or buffer_size < 1 or not 0 <= restart <= 1:
            raise ValueError(
                f"'SGLDSampler' expects num_steps and buffer_size >= 1 and "
                f'restart in [0, 1] (got {num_steps}, {buffer_size} and '
                f'{restart})'
            )
        if not step_size > 0 or not noise_std >= 0 or not low < high:
            raise ValueError(
                f"'SGLDSampler' expects step_size > 0, noise_std >= 0 and "
                f'low < high (got {step_size}, {noise_std}, {low} and {high})'
            )
        self.num_steps = num_steps
        self.step_size = step_size
        self.noise_std = noise_std
        self.restart = restart
        self.low = low
        self.high = high
        self.clamp = clamp
        self.generator = generator
        self.register_buffer('buffer', self._fresh(buffer_size, *shape))

    def sample(
        self, energy: Callable[[Tensor], Tensor], num_samples: int
    ) -> Tensor:
        r"""Return samples :math:`[B, *]` without gradient; updates the buffer.

        Args:
            energy (callable): From samples :math:`[B, *]` to energies of
                rows or graphs, :math:`[B]`.
            num_samples (int): :math:`B`.

        Raises:
            FloatingPointError: If a chain leaves the finite numbers; the
                buffer stays as it was.
        """
        rows = torch.randint(
            self.buffer.size(0), (num_samples,), generator=self.generator
        ).to(self.buffer.device)
        x = self.buffer[rows]  # [B, *]
        fresh = torch.rand(num_samples, generator=self.generator)
        fresh = (fresh < self.restart).to(x.device)
        x[fresh] = self._fresh(int(fresh.sum()), *x.shape[1:]).to(x)
        for _ in range(self.num_steps):
            x = self._step(energy, x)
        if not bool(x.isfinite().all()):
            raise FloatingPointError(
                f"'SGLDSampler' left the finite numbers within "
                f'{self.num_steps} steps of size {self.step_size}; use '
                f"smaller steps, a 'clamp', or a penalty on the energies"
            )
        self.buffer[rows] = x
        return x

    def _step(self, energy: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad(energy(x).sum(), x)
        if self.clamp is not None:
            grad = grad.clamp(-self.clamp, self.clamp)
        noise = torch.randn(x.shape, generator=self.generator).to(x)
        return x.detach() - self.step_size * grad + self.noise_std * noise

    def _fresh(self, *size: int) -> Tensor:
        uniform = torch.rand(size, generator=self.generator)
        return self.low + (self.high - self.low) * uniform

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}({tuple(self.buffer.shape[1:])}, '
            f'num_steps={self.num_steps}, step_size={self.step_size})'
        )
