r"""NG-EBM: cross-entropy, and a small gradient of the energy at known inputs.

With energies :math:`E_b = -\log \sum_k e^{f_k(x_b)}` of B inputs,

.. math::
    L = (1 - \beta)\, \mathrm{CE} + \beta\, G + \nu\, V               (1)

    G = \frac{1}{B} \sum_b \Big\lVert
        \frac{\partial \sum_i E_i}{\partial x_b} \Big\rVert_2, \qquad
    V = \frac{1}{B} \sum_b (E_b - \bar E)^2                           (2)

(Piland et al. 2023, arXiv 2304.01297). Known inputs lie where the density
:math:`e^{-E}` is flat, so the gradient there is made small, without samples.
G is minimised by a double backward pass, but for linear heads (below). The
paper has :math:`\beta = 1/2` and :math:`\nu = 0`; its released code adds V,
with the same weight as both others, which the text does not mention.

There is no default for :math:`\beta`. The term lowers the confidence: it
helps over-confident models and harms the others; and G scales with the
inverse of the features, so that values do not carry over between data sets.
Choose it on validation data, and look at the confidence first
(:func:`~torch_energy_graph.ood.warn_if_underconfident`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torch_geometric.nn import Linear

from torch_energy_graph.energies.classifier import (
    free_energy,
    free_energy_grad,
)

from .calls import checked_logits, classification_loss, logits_and_latent
from .gradients import energy_gradient, row_norms
from .second_order import plain_edges, second_order_paths

__all__ = ['NGEBMLoss']

_LINEAR = (torch.nn.Linear, Linear)


class NGEBMLoss(Module):
    r"""The loss (1), of any classifier of nodes, graphs or images.

    :meth:`evaluate` runs the model and returns the loss. :meth:`forward` is
    for own training loops: the logits must come from an input that requires
    gradients, within :func:`~torch_energy_graph.ood.second_order_paths`.

    Args:
        beta (float): Weight :math:`\beta \in [0, 1)` of the gradient term.
        variance (float, optional): Weight :math:`\nu \ge 0`.
            (default: :obj:`0.0`)
        mode (str, optional): Where the gradient is taken. :obj:`"input"`: at
            the first argument of the model; for nodes of a graph, of the
            summed energy. :obj:`"latent"`: at the input of a head that reads
            every row by itself; for a linear one,
            :math:`\lVert W^\top p_b \rVert` without a double backward pass.
            (default: :obj:`"input"`)
        squared (bool, optional): Whether to square the norms in G.
            (default: :obj:`False`)
        on (str, optional): Rows of both sums over i and b in (2):
            :obj:`"labelled"` ones (those of :obj:`mask`), or :obj:`"all"`
            rows, for which no labels are needed.
            (default: :obj:`"labelled"`)
        feature_scale (str, optional): :obj:`"std"` multiplies the gradient of
            every feature with its standard deviation over the rows, so that G
            does not depend on units; constant features drop out.
            (default: :obj:`None`)
        multi_label (bool, optional): Labels :math:`[N, K]` that may hold
            together. (default: :obj:`False`)

    Example:
        >>> loss_fn = NGEBMLoss(beta=0.1)
        >>> loss = loss_fn.evaluate(
        ...     model, data.y, data.x, data.edge_index, mask=data.train_mask
        ... )
        >>> loss.backward()
    """

    def __init__(
        self,
        beta: float,
        variance: float = 0.0,
        mode: str = 'input',
        squared: bool = False,
        on: str = 'labelled',
        feature_scale: str | None = None,
        multi_label: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= beta < 1 or not 0 <= variance < float('inf'):
            raise ValueError(
                f"'NGEBMLoss' expects beta in [0, 1) and variance >= 0 (got "
                f'{beta} and {variance})'
            )
        _check_choice('mode', mode, ('input', 'latent'))
        _check_choice('on', on, ('labelled', 'all'))
        _check_choice('feature_scale', feature_scale, (None, 'std'))
        self.beta = beta
        self.variance = variance
        self.mode = mode
        self.squared = squared
        self.on = on
        self.feature_scale = feature_scale
        self.multi_label = multi_label

    @classmethod
    def paper(cls, **kwargs: Any) -> NGEBMLoss:
        r"""As the paper states it: :math:`\beta = 1/2`, no variance."""
        return cls(beta=0.5, **kwargs)

    @classmethod
    def released_code(cls, **kwargs: Any) -> NGEBMLoss:
        r"""As the released code weighs it: all three terms the same."""
        return cls(beta=0.5, variance=0.5, **kwargs)

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
        r"""Run :obj:`model(x, *args, **kwargs)` and return its loss.

        Operators without a right second derivative are replaced during the
        pass, and an :class:`EdgeIndex` is passed as a tensor. A keyword
        :obj:`batch` (the graph of every node) goes to the model, too.

        Args:
            model (torch.nn.Module): Classifier, returns logits.
            y (Tensor): As in :meth:`forward`.
            x (Tensor): Input; the gradient is taken here in mode
                :obj:`"input"`.
            *args: What else the model takes, such as edges.
            mask (Tensor, optional): As in :meth:`forward`.
            head (torch.nn.Module, optional): Module of the model whose input
                the gradient is taken at, in mode :obj:`"latent"`; in closed
                form if it is linear and returns the logits.
            **kwargs: What the model takes by name.

        Raises:
            ValueError: As :meth:`forward`.
        """
        batch = kwargs.get('batch')
        args = tuple(map(plain_edges, args))
        kwargs = {name: plain_edges(value) for name, value in kwargs.items()}
        with torch.enable_grad(), second_order_paths():
            if self.mode == 'latent':
                if head is None:
                    raise ValueError(
                        "'NGEBMLoss' in mode 'latent' needs the 'head' of "
                        'the model, such as model.lin'
                    )
                logits, at, last = logits_and_latent(
                    model, head, x, *args, **kwargs
                )
                head = head if last else None
            else:
                at = _leaf(x)
                logits = model(at, *args, **kwargs)
            return self(logits, y, at, mask, batch, head)

    def forward(
        self,
        logits: Tensor,
        y: Tensor,
        inputs: Tensor,
        mask: Tensor | None = None,
        batch: Tensor | None = None,
        head: Module | None = None,
    ) -> Tensor:
        r"""Return the loss, a scalar.

        Args:
            logits (Tensor): Of nodes, graphs or images, :math:`[N, K]`.
            y (Tensor): Classes :math:`[N]`, or labels :math:`[N, K]`.
            inputs (Tensor): Where the gradient is taken: what the logits were
                computed from, or in mode :obj:`"latent"` the input of the
                head, :math:`[N, C]`.
            mask (Tensor, optional): Labelled rows, bool :math:`[N]` or
                indices. (default: all)
            batch (LongTensor, optional): Graph of every row of
                :obj:`inputs`, where the logits are those of graphs.
            head (torch.nn.Module, optional): In mode :obj:`"latent"`, a
                linear layer whose output the logits are: G in closed form.

        Raises:
            ValueError: If no row is labelled, the logits do not depend on
                the inputs, are log-probabilities, or shapes do not fit.
        """
        if head is not None and self.mode != 'latent':
            raise ValueError(
                "'NGEBMLoss' takes a 'head' in mode 'latent' only; its mode "
                "is 'input'"
            )
        checked_logits(logits, self.multi_label)
        rows: Any = slice(None) if mask is None else mask
        energy = free_energy(logits, multi_label=self.multi_label)  # [N]
        chosen: Any = rows if self.on == 'labelled' else slice(None)
        fit = classification_loss(logits[rows], y[rows], self.multi_label)
        loss = (1 - self.beta) * fit
        if self.beta:
            norm = self._norms(logits, energy, inputs, chosen, batch, head)
            norm = norm.square() if self.squared else norm
            loss = loss + self.beta * norm.mean()
        if self.variance:
            spread = energy[chosen].var(correction=0)
            loss = loss + self.variance * spread
        return loss

    def _norms(
        self,
        logits: Tensor,
        energy: Tensor,
        inputs: Tensor,
        rows: Any,
        batch: Tensor | None,
        head: Module | None,
    ) -> Tensor:
        """Norms of the gradients of the chosen rows."""
        if self.mode == 'latent' and inputs.size(0) != logits.size(0):
            raise ValueError(
                f"'NGEBMLoss' in mode 'latent' expects an input of the head "
                f'for each of the {logits.size(0)} rows (got '
                f'{list(inputs.shape)})'
            )
        if isinstance(head, _LINEAR):
            grad = free_energy_grad(
                logits[rows], multi_label=self.multi_label, weight=head.weight
            )
            return row_norms(self._scaled(grad, inputs), grad.size(0))
        grad = energy_gradient(energy[rows], inputs, create_graph=True)
        norm = row_norms(self._scaled(grad, inputs), logits.size(0), batch)
        return norm[rows]

    def _scaled(self, grad: Tensor, inputs: Tensor) -> Tensor:
        if self.feature_scale is None:
            return grad
        return grad * inputs.detach().std(0, correction=0)

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(beta={self.beta}, '
            f'variance={self.variance}, mode={self.mode!r}, on={self.on!r})'
        )


def _leaf(inputs: Tensor) -> Tensor:
    """An input that gets a gradient; parameters behind it get theirs."""
    if inputs.requires_grad:
        return inputs
    if not inputs.is_floating_point():
        raise ValueError(
            f'the gradient of the energy needs a floating-point input (got '
            f"{inputs.dtype}); use mode 'latent' for indices"
        )
    return inputs.detach().requires_grad_()


def _check_choice(name: str, value: Any, known: tuple[Any, ...]) -> None:
    if value not in known:
        raise ValueError(
            f"'NGEBMLoss' expects '{name}' of {known} (got {value!r})"
        )
