r"""Diffusivities: how strongly two states pull at each other.

A non-decreasing concave penalty :math:`\delta` of the squared distance
:math:`r_{ij} = \lVert x_i - x_j \rVert^2` charges distant pairs less than a
square would; its slope :math:`f = \delta'` is the diffusivity, and

.. math::
    S_{ij} = \frac{f(r_{ij})}{\sum_l f(r_{il})}                      (1)

(DIFFormer, eq. 4; the two penalties are integrated from its f):

===========  ========================================  ==================
kernel       :math:`\delta(r)`                         f(r)
===========  ========================================  ==================
``simple``   :math:`2 r - r^2 / 4`                     :math:`2 - r / 2`
``sigmoid``  :math:`2 \log (1 + e)                     :math:`\sigma(1 -
             - 2 \log (1 + e^{1 - r / 2})`             r / 2)`
===========  ========================================  ==================

On unit vectors :math:`r = 2 - 2\, x_i \cdot x_j`, and f is :math:`1 + x_i
\cdot x_j` (DIFFormer-s) and :math:`\sigma(x_i \cdot x_j)` (DIFFormer-a).
``simple`` is a penalty for :math:`r \le 4` only: beyond, its slope is
negative. States within the unit ball, unit vectors among them, never leave
that range. ``sigmoid`` is one for every r and is bounded.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .edges import checked_edges

__all__ = [
    'DIFFUSION_KERNELS',
    'check_state',
    'diffusivity',
    'pair_diffusivity',
    'pair_penalty',
    'squared_distance',
]

DIFFUSION_KERNELS = ('simple', 'sigmoid')

_SIGMOID_1 = 1 / (1 + math.exp(-1))


def pair_penalty(distance: Tensor, kernel: str = 'simple') -> Tensor:
    r"""Penalty :math:`\delta(r)` of squared distances r >= 0.

    Args:
        distance (Tensor): :math:`r`, of any shape.
        kernel (str, optional): :obj:`"simple"` or :obj:`"sigmoid"`.
            (default: :obj:`"simple"`)

    Raises:
        ValueError: If the kernel is unknown.
    """
    if kernel == 'simple':
        return distance * (2 - distance / 4)
    if kernel == 'sigmoid':
        # the table's formula, without the difference of two logarithms
        return -2 * (_SIGMOID_1 * (-distance / 2).expm1()).log1p()
    raise _unknown(kernel)


def pair_diffusivity(distance: Tensor, kernel: str = 'simple') -> Tensor:
    r"""Diffusivity :math:`f = \delta'` of squared distances.

    The arguments are those of :func:`pair_penalty`.
    """
    if kernel == 'simple':
        return (2 - distance / 2).clamp(min=0)  # rounding at r = 4
    if kernel == 'sigmoid':
        return (1 - distance / 2).sigmoid()
    raise _unknown(kernel)


def diffusivity(
    x: Tensor,
    kernel: str = 'simple',
    edge_index: Any = None,
    batch: Tensor | None = None,
) -> Tensor:
    r"""Matrix S of Eq. (1), to look at; its rows sum to one.

    It costs :math:`O(N^2)`; :func:`diffusion_step` does not need it.

    Args:
        x (Tensor): State :math:`[N, C]`.
        kernel (str, optional): :obj:`"simple"` or :obj:`"sigmoid"`.
            (default: :obj:`"simple"`)
        edge_index (Adj or GraphCache, optional): Only these pairs, each
            half in either direction; a node without edges keeps its state.
            (default: all pairs of a graph, a node and itself among them)
        batch (LongTensor, optional): Graph of every node, :math:`[N]`;
            pairs of different graphs get zero.

    Returns:
        Tensor: :math:`S`, :math:`[N, N]`, float32 at least.

    Raises:
        ValueError: If the kernel is unknown or does not admit the state.
    """
    check_state(x, kernel)
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    weight = pair_diffusivity(squared_distance(x, x), kernel)  # [N, N]
    if edge_index is not None:
        (src, dst), _ = checked_edges(edge_index, None, x.size(0))
        count = torch.zeros_like(weight)
        one = weight.new_ones(src.size(0))
        count = count.index_put((dst, src), one, accumulate=True)
        weight = weight * (count + count.mT) / 2
    if batch is not None:
        weight = weight * (batch == batch.unsqueeze(-1))
    alone = (weight.sum(-1) == 0).to(weight.dtype).diag()
    weight = weight + alone
    return weight / weight.sum(-1, keepdim=True)


def squared_distance(x: Tensor, y: Tensor) -> Tensor:
    r"""Squared distances :math:`[..., N, M]` of :math:`x`, :math:`y`."""
    inner = x @ y.mT
    size_x = x.square().sum(-1).unsqueeze(-1)
    size_y = y.square().sum(-1).unsqueeze(-2)
    return (size_x + size_y - 2 * inner).clamp(min=0)


def check_state(x: Tensor, kernel: str) -> None:
    r"""Raises a ValueError if the kernel is no penalty on these states."""
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(
            f'the diffusion energy expects a floating-point state [N, C] '
            f'(got {list(x.shape)} of {x.dtype})'
        )
    if kernel not in DIFFUSION_KERNELS:
        raise _unknown(kernel)
    if kernel != 'simple' or x.numel() == 0 or torch.compiler.is_compiling():
        return
    wide = torch.promote_types(x.dtype, torch.float32)
    largest = float(x.detach().norm(dim=-1, dtype=wide).max())
    # float64 states may come from normalised float32 features
    rounding = max(torch.finfo(t).eps for t in (x.dtype, torch.float32))
    if not largest <= 1 + 8 * rounding:
        raise ValueError(
            f"kernel 'simple' expects states within the unit ball (got a "
            f'norm of {largest:.3g}): beyond a distance of 2 its diffusivity '
            f"is negative. Normalise them (F.normalize), or use 'sigmoid'"
        )


def _unknown(kernel: str) -> ValueError:
    return ValueError(
        f"'kernel' must be one of {list(DIFFUSION_KERNELS)} (got {kernel!r})"
    )
