r"""Projected gradient descent: the worst input within a small ball.

.. math::
    x^{t+1} = \Pi_{\lVert x - x^0 \rVert \le \varepsilon} \big(
        x^t + \eta\, u(\nabla_x \mathrm{CE}(f(x^t), y)) \big)          (1)

after `"Towards Deep Learning Models Resistant to Adversarial Attacks"
<https://arxiv.org/abs/1706.06083>`_, with :math:`u` the sign for
:math:`L_\infty` and the division by the norm for :math:`L_2`.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

__all__ = ['pgd_attack']

TINY = 1e-12  # of a norm


def pgd_attack(
    predict: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    epsilon: float,
    norm: Literal['linf', 'l2'] = 'linf',
    steps: int = 40,
    step_size: float | None = None,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    generator: Generator | None = None,
) -> Tensor:
    r"""Inputs near :obj:`x` that the model gets wrong, if it finds some.

    The ball is one per row of :obj:`x`; the norm is taken over all other
    dimensions. The last iterate is returned, from one random start.

    Args:
        predict (callable): From inputs of the shape of :obj:`x` to logits
            :math:`[B, K]`; in eval mode. For nodes, close over the graph.
        x (Tensor): Inputs :math:`[B, *]`.
        y (LongTensor): True classes :math:`[B]`.
        epsilon (float): Radius :math:`\varepsilon`.
        norm (str, optional): :obj:`"linf"` or :obj:`"l2"`.
            (default: :obj:`"linf"`)
        steps (int, optional): Number of steps. (default: :obj:`40`)
        step_size (float, optional): :math:`\eta`; if :obj:`None`,
            :math:`2.5\, \varepsilon / \mathrm{steps}`. (default: :obj:`None`)
        bounds (tuple, optional): Smallest and largest value of an input, or
            :obj:`None`. (default: :obj:`(0, 1)`)
        generator (torch.Generator, optional): Of the start, on the CPU.
            (default: :obj:`None`, torch's own)

    Returns:
        Tensor: Of the shape of :obj:`x`, without gradient.
    """
    if norm not in ('linf', 'l2') or epsilon < 0 or steps < 1:
        raise ValueError(
            f"'pgd_attack' expects norm 'linf' or 'l2', epsilon >= 0 and "
            f'steps >= 1 (got {norm!r}, {epsilon} and {steps})'
        )
    step = 2.5 * epsilon / steps if step_size is None else step_size
    low, high = bounds or (None, None)
    noise = 2 * torch.rand(x.shape, generator=generator).to(x) - 1
    moved = x + _project(epsilon * noise, epsilon, norm)
    for _ in range(steps):
        moved = moved.clamp(low, high) if bounds else moved
        moved = moved.detach().requires_grad_()
        with torch.enable_grad():
            loss = cross_entropy(predict(moved), y, reduction='sum')
        (grad,) = torch.autograd.grad(loss, moved)
        way = grad.sign() if norm == 'linf' else grad / _norms(grad)
        moved = x + _project(moved.detach() + step * way - x, epsilon, norm)
    return moved.clamp(low, high) if bounds else moved


def _norms(x: Tensor) -> Tensor:
    """L2 norm of each row, [B, 1, ...], never zero."""
    norm = torch.linalg.vector_norm(x.flatten(1), dim=1).clamp(min=TINY)
    return norm.view(-1, *[1] * (x.dim() - 1))


def _project(delta: Tensor, epsilon: float, norm: str) -> Tensor:
    if norm == 'linf':
        return delta.clamp(-epsilon, epsilon)
    return delta * (epsilon / _norms(delta)).clamp(max=1)
