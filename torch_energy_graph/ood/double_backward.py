r"""Is the second derivative of a model right? One finite difference tells.

With the penalty :math:`R(\theta)`, the mean norm of the energy's gradient at
the input, and a random unit direction v of all parameters,

.. math::
    v^\top \frac{\partial R}{\partial \theta} =
    \frac{R(\theta + h v) - R(\theta - h v)}{2 h} + O(h^2).          (1)

The left side takes a double backward pass, the right side none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from torch_geometric.data import Data

from torch_energy_graph.energies.classifier import free_energy

from .gradients import energy_gradient, row_norms
from .second_order import plain_edges, second_order_paths

__all__ = ['check_double_backward']

Named = dict[str, Parameter]

_STEPS = (1e-4, 1e-5, 1e-6)  # one of them crosses no kink of a ReLU
_DIRECTIONS = 3
_FLOOR = 1e-6  # relative to R: what is smaller counts as no derivative


def check_double_backward(
    model: Module,
    data: Any,
    predict: Callable[[Module, Any], Tensor] | None = None,
    forced: bool = True,
    tol: float = 1e-3,
    seed: int = 0,
) -> float:
    r"""Checks the gradient of the NG-EBM penalty by Eq. (1).

    On a copy of the model, in float64 and eval mode; the model stays as it
    is. Run it once per architecture, on a small graph. A model that detaches
    something on purpose fails, too, such as the certified step of
    :obj:`EnergyTransformerConv(..., step_size='auto')`: its gradients take
    the step as a constant.

    Args:
        model (torch.nn.Module): Classifier, returns logits.
        data (Data or Tensor): A graph with :obj:`x` and :obj:`edge_index`,
            or a batch of images.
        predict (callable, optional): :obj:`predict(model, data)` giving
            logits; if :obj:`None`, :obj:`model(data.x, data.edge_index)`, or
            :obj:`model(data)` of a tensor. (default: :obj:`None`)
        forced (bool, optional): Whether the forward pass runs as in
            :meth:`NGEBMLoss.evaluate`; if :obj:`False`, the model is checked
            as it is called elsewhere. (default: :obj:`True`)
        tol (float, optional): Largest relative difference.
            (default: :obj:`1e-3`)
        seed (int, optional): Seed of the directions. (default: :obj:`0`)

    Returns:
        float: The largest relative difference found.

    Raises:
        RuntimeError: If the second derivative is missing or wrong; it names
            the parameters.
        ValueError: If the model draws random numbers in eval mode, or has no
            parameters to train.
    """
    predict = predict or _default_predict
    probe = copy.deepcopy(model).eval()
    with torch.no_grad():
        predict(probe, data)  # sizes of lazy parameters
    probe = probe.double()
    params = {k: p for k, p in probe.named_parameters() if p.requires_grad}
    if not params:
        raise ValueError("'check_double_backward' found nothing to train")

    def penalty() -> Tensor:
        return _penalty(probe, data, predict, forced)

    grads, size = _gradients(penalty, params)
    if float(penalty().detach()) != size:
        raise ValueError(
            "'check_double_backward' needs a model without random numbers in "
            'eval mode; switch its noise off'
        )
    generator = torch.Generator().manual_seed(seed)

    def worst(names: list[str], directions: int) -> float:
        return max(
            _difference(penalty, params, grads, names, size, generator)
            for _ in range(directions)
        )

    found = worst(list(params), _DIRECTIONS)
    if found > tol:
        names = [name for name in params if worst([name], 1) > tol]
        raise RuntimeError(
            f'the gradient of the penalty differs from a finite difference by '
            f'{found:.2g} (relative), in {names[:5]}: an operator of the '
            f'model loses a second derivative. Use edge_index tensors and '
            f"index-based aggregations, or a loss that needs none: mode='"
            f"latent' with a linear head, or 'EnergyVarianceLoss'"
        )
    return found


def _default_predict(model: Module, data: Any) -> Tensor:
    if isinstance(data, Tensor):
        return model(data)
    return model(data.x, data.edge_index)


def _penalty(
    model: Module, data: Any, predict: Callable[..., Tensor], forced: bool
) -> Tensor:
    """R of the current parameters, a scalar."""
    data, inputs = _differentiable(data, forced)
    with (
        torch.enable_grad(),
        second_order_paths() if forced else nullcontext(),
    ):
        logits = predict(model, data)
        energy = free_energy(logits)
        grad = energy_gradient(energy, inputs, create_graph=True)
        batch = None if isinstance(data, Tensor) else data.get('batch')
        return row_norms(grad, logits.size(0), batch).mean()


def _differentiable(data: Any, forced: bool) -> tuple[Any, Tensor]:
    """The data in float64, and its part that gets a gradient."""
    if isinstance(data, Tensor):
        inputs = data.detach().double().requires_grad_()
        return inputs, inputs
    double: Data = copy.copy(data)
    for name, value in data.to_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point():
            double[name] = value.detach().double()
        elif forced:
            double[name] = plain_edges(value)
    inputs = double.x.requires_grad_()
    return double, inputs


def _gradients(
    penalty: Callable[[], Tensor], params: Named
) -> tuple[dict[str, Tensor], float]:
    """Gradients of R by double backward, and R."""
    try:
        value = penalty()
        if not value.requires_grad:  # no second derivative at all
            found: Any = [None] * len(params)
        else:
            found = torch.autograd.grad(
                value, list(params.values()), allow_unused=True
            )
    except RuntimeError as error:
        raise RuntimeError(
            f'the model cannot be differentiated twice: {error}'
        ) from error
    grads = {
        name: torch.zeros_like(p) if grad is None else grad
        for (name, p), grad in zip(params.items(), found, strict=True)
    }
    return grads, float(value.detach())


def _difference(
    penalty: Callable[[], Tensor],
    params: Named,
    grads: dict[str, Tensor],
    names: list[str],
    size: float,
    generator: torch.Generator,
) -> float:
    """Relative difference of both sides of Eq. (1) in one direction."""
    way = {
        name: torch.randn(
            params[name].shape, generator=generator, dtype=torch.double
        ).to(params[name].device)
        for name in names
    }
    norm = torch.stack([v.norm() for v in way.values()]).norm().clamp(1e-12)
    way = {name: v / norm for name, v in way.items()}
    slope = float(sum((v * grads[name]).sum() for name, v in way.items()))
    floor = _FLOOR * abs(size) + 1e-12
    found = []
    for h in _STEPS:
        rise = _moved(penalty, params, way, h)
        rise = (rise - _moved(penalty, params, way, -h)) / (2 * h)  # (1)
        scale = max(abs(slope), abs(rise), floor)
        found.append(abs(rise - slope) / scale)
    return min(found)


def _moved(
    penalty: Callable[[], Tensor],
    params: Named,
    way: dict[str, Tensor],
    h: float,
) -> float:
    """R of parameters that stand h further along a direction."""
    kept = {name: params[name].detach().clone() for name in way}
    with torch.no_grad():
        for name, v in way.items():
            params[name].add_(h * v)
    value = float(penalty().detach())
    with torch.no_grad():
        for name, old in kept.items():
            params[name].copy_(old)
    return value
