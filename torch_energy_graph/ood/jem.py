r"""JEM: cross-entropy, and a likelihood of the inputs by sampling.

.. math::
    L = \mathrm{CE} + \overline{E(x)} - \overline{E(x')}
        + \lambda\, \big(\overline{E(x)^2} + \overline{E(x')^2}\big)  (1)

with samples x' of the model's own density (:mod:`.sgld`), through which no
gradient flows (Grathwohl et al. 2020, "Your Classifier is Secretly an Energy
Based Model"; :math:`\lambda > 0` keeps energies from drifting). The expensive
baseline: every step of the sampler is a pass over the model, and runs diverge.
On graphs, samples of node features share the edges of the data; in the latent
space of a head they cost a fraction (DeGEM, ICLR 2025).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.nn import Module

from torch_energy_graph.energies.classifier import free_energy

from .calls import checked_logits, classification_loss, logits_and_latent
from .sgld import SGLDSampler

__all__ = ['JEMLoss']


class JEMLoss(Module):
    r"""The loss (1), of any classifier of nodes, graphs or images.

    Args:
        sampler (SGLDSampler): Draws x'; its shape is that of one row of the
            input, or of the input of the head.
        space (str, optional): :obj:`"input"`: samples replace the first
            argument of the model; or :obj:`"latent"`: the input of a head
            that reads every row by itself. (default: :obj:`"input"`)
        energy_l2 (float, optional): :math:`\lambda \ge 0`.
            (default: :obj:`0.0`)
        limit (float, optional): Size of the loss that counts as divergence.
            (default: :obj:`1e8`, as in JEM's code)
        multi_label (bool, optional): Labels :math:`[N, K]` that may hold
            together. (default: :obj:`False`)

    Example:
        >>> loss_fn = JEMLoss(SGLDSampler([1, 28, 28]))
        >>> loss = loss_fn.evaluate(model, y, images)
        >>> loss.backward()
    """

    def __init__(
        self,
        sampler: SGLDSampler,
        space: str = 'input',
        energy_l2: float = 0.0,
        limit: float = 1e8,
        multi_label: bool = False,
    ) -> None:
        super().__init__()
        if space not in ('input', 'latent'):
            raise ValueError(
                f"'JEMLoss' expects space 'input' or 'latent' (got {space!r})"
            )
        if not energy_l2 >= 0 or not limit > 0:
            raise ValueError(
                f"'JEMLoss' expects energy_l2 >= 0 and limit > 0 (got "
                f'{energy_l2} and {limit})'
            )
        self.sampler = sampler
        self.space = space
        self.energy_l2 = energy_l2
        self.limit = limit
        self.multi_label = multi_label

    def evaluate(
        self,
        model: Module,
        y: Tensor,
        x: Tensor,
        *args: Any,
        mask: Tensor | None = None,
        head: Module | None = None,
        **kwargs: Any,
    ) -> Tensor:
        r"""Run :obj:`model(x, *args, **kwargs)`, sample, return the loss.

        The model samples in eval mode, and scores in its own. There are as
        many samples as rows of the input, or of the input of the head.

        Args:
            model (torch.nn.Module): Classifier, returns logits.
            y (Tensor): As in :meth:`forward`.
            x (Tensor): Input :math:`[N, *]`.
            *args: What else the model takes, such as edges.
            mask (Tensor, optional): As in :meth:`forward`.
            head (torch.nn.Module, optional): Module of the model, in space
                :obj:`"latent"`; it returns the logits.
            **kwargs: What the model takes by name.

        Raises:
            FloatingPointError: If the training diverges.
            ValueError: If labels, the mask or the head do not fit.
        """
        if (head is not None) != (self.space == 'latent'):
            raise ValueError(
                f"'JEMLoss' takes the 'head' of the model exactly in space "
                f"'latent' (its space is {self.space!r})"
            )
        if head is None:
            logits, num_rows = model(x, *args, **kwargs), x.size(0)

            def answers(sample: Tensor) -> Tensor:
                return model(sample, *args, **kwargs)
        else:
            logits, hidden, last = logits_and_latent(
                model, head, x, *args, **kwargs
            )
            if not last:
                raise ValueError(
                    "'head' must return the logits, as the last module does"
                )
            answers, num_rows = head, hidden.size(0)

        def energy(sample: Tensor) -> Tensor:
            return free_energy(answers(sample), multi_label=self.multi_label)

        with _eval_mode(model):
            sample = self.sampler.sample(energy, num_rows)
        return self(logits, y, energy(sample), mask)

    def forward(
        self,
        logits: Tensor,
        y: Tensor,
        sampled: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:
        r"""Return the loss, a scalar.

        Args:
            logits (Tensor): Of the data, :math:`[N, K]`; all rows take part
                in the likelihood of the inputs.
            y (Tensor): Classes :math:`[N]`, or labels :math:`[N, K]`.
            sampled (Tensor): Energies of samples, with their gradients by the
                parameters, :math:`[M]`.
            mask (Tensor, optional): Labelled rows, bool :math:`[N]` or
                indices. (default: all)

        Raises:
            FloatingPointError: If the loss is not finite or exceeds the
                limit.
        """
        checked_logits(logits, self.multi_label)
        rows: Any = slice(None) if mask is None else mask
        energy = free_energy(logits, multi_label=self.multi_label)
        fit = classification_loss(logits[rows], y[rows], self.multi_label)
        loss = fit + energy.mean() - sampled.mean()
        if self.energy_l2:
            square = energy.square().mean() + sampled.square().mean()
            loss = loss + self.energy_l2 * square
        value = float(loss.detach())
        if not math.isfinite(value) or abs(value) > self.limit:
            raise FloatingPointError(
                f"'JEMLoss' diverged: the loss is {value:.3g}; go back to a "
                f'checkpoint, with more or smaller sampling steps, a lower '
                f"learning rate or 'energy_l2' > 0"
            )
        return loss

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self.sampler}, space={self.space!r})'


@contextmanager
def _eval_mode(model: Module) -> Iterator[None]:
    """Eval mode for a while; every module returns to its own mode."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
