"""How losses and scores call a model: what they check and look inside for."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module

from torch_energy_graph.energies.classifier import free_energy

__all__ = ['checked_logits', 'classification_loss', 'logits_and_latent']

_ROUNDING = 1e-5  # of log-sum-exp of log-probabilities


def checked_logits(logits: Tensor, multi_label: bool = False) -> Tensor:
    """The logits, unless they are log-probabilities.

    Raises:
        ValueError: If every row sums to probability 1: such rows have lost
            the constant that the energy reads, and all have energy 0.
    """
    if multi_label or logits.dim() != 2 or logits.size(1) < 2:
        return logits
    known = not torch.compiler.is_compiling() and logits.numel() > 0
    if known and bool((free_energy(logits.detach()).abs() < _ROUNDING).all()):
        raise ValueError(
            'the model returns log-probabilities, whose energies are all 0; '
            'return the logits before log_softmax'
        )
    return logits


def classification_loss(
    logits: Tensor, y: Tensor, multi_label: bool
) -> Tensor:
    """Mean cross-entropy, or binary cross-entropy of labels [N, K]."""
    if logits.size(0) == 0:
        raise ValueError("expected labelled rows (got none); check 'mask'")
    if multi_label:
        return F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
    return F.cross_entropy(logits, y)


def logits_and_latent(
    model: Module, head: Module, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor, bool]:
    """Logits of a model, what its head reads, and if the head returns them.

    Raises:
        ValueError: If the head does not run exactly once, on one tensor.
    """
    seen: list[tuple[Any, Any]] = []

    def track(_: Module, inputs: Any) -> Any:
        # below a frozen encoder, nothing asks for a gradient
        return tuple(
            value.detach().requires_grad_()
            if isinstance(value, Tensor) and _lacks_gradient(value)
            else value
            for value in inputs
        )

    def keep(_: Module, inputs: Any, output: Any) -> None:
        seen.append((inputs, output))

    handles = [
        head.register_forward_pre_hook(track),
        head.register_forward_hook(keep),
    ]
    try:
        logits = model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    inputs: Any = seen[0][0] if len(seen) == 1 else ()
    if len(inputs) != 1 or not isinstance(inputs[0], Tensor):
        raise ValueError(
            f"'head' must be a module of the model that runs once, on one "
            f'tensor [N, C] (it ran {len(seen)} times, on {len(inputs)} '
            f'inputs); a layer that reads edges is no head, use the gradient '
            f'at the input there'
        )
    return logits, inputs[0], logits is seen[0][1]


def _lacks_gradient(value: Tensor) -> bool:
    return value.is_floating_point() and not value.requires_grad
