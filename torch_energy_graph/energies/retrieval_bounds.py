r"""What modern Hopfield retrieval promises: separation, error, capacity.

N patterns of norm at most M, inverse temperature :math:`\beta`, softmax. The
separation of a pattern and, at distance r of a state from it, the weight
that all others can have together are

.. math::
    \Delta_i = x_i^\top x_i - \max_{j \ne i} x_i^\top x_j             (1)

    \epsilon = (N - 1) \exp(-\beta (\Delta_i - 2 r M))                (2)

because :math:`\xi^\top (x_i - x_j) \ge \Delta_i - 2 r M`. So an update ends
within

.. math::
    \lVert f(\xi) - x_i \rVert = \Big\lVert \sum_{j \ne i} p_j
    (x_j - x_i) \Big\rVert \le 2 M \epsilon                           (3)

and contracts distances from the fixed point near :math:`x_i` by

.. math::
    \lVert J \rVert_2 = \beta \lVert X^\top (\mathrm{diag}(p) - p p^\top)
    X \rVert_2 \le 2 \beta N M^2 \epsilon                             (4)

with r the larger of the distances of state and fixed point from
:math:`x_i`. At :math:`r = 1 / (\beta N M)`, (3) is at most r and (4) at most
1, that is, the ball has a fixed point and all states in it move there, if

.. math::
    \Delta_i \ge \frac{2}{\beta N} + \frac{1}{\beta}
    \ln \big( 2 (N - 1) N \beta M^2 \big)                             (5)

(Ramsauer et al. 2020, theorems 3 to 5 and their definition of a
well-separated pattern.)
"""

from __future__ import annotations

import math

import torch
from scipy.special import lambertw
from torch import Tensor

__all__ = [
    'binary_capacity',
    'contraction_bound',
    'pattern_separation',
    'retrieval_error_bound',
    'storage_capacity',
    'well_separated',
]

_BLOCK = 2**12


def pattern_separation(stored: Tensor) -> Tensor:
    r"""Separation of every pattern, Eq. (1).

    Args:
        stored (Tensor): Patterns :math:`[N, d]`. Inner products are taken in
            blocks of rows, so memory stays linear in N.

    Returns:
        Tensor: :math:`\Delta`, :math:`[N]`; infinite for a single pattern.

    Raises:
        ValueError: If the shape is wrong.
    """
    _check_stored(stored)
    out = []
    for start in range(0, stored.size(0), _BLOCK):
        rows = stored[start : start + _BLOCK]
        overlap = rows @ stored.t()  # [rows, N]
        own = torch.arange(rows.size(0), device=stored.device)
        overlap[own, own + start] = -torch.inf
        out.append(rows.square().sum(-1) - overlap.amax(-1))
    return torch.cat(out) if out else stored.new_zeros(0)


def well_separated(stored: Tensor, beta: float = 1.0) -> Tensor:
    r"""Which patterns satisfy Eq. (5) and so have a fixed point nearby.

    Args:
        stored (Tensor): Patterns :math:`[N, d]`.
        beta (float, optional): :math:`\beta > 0`. (default: :obj:`1.0`)

    Returns:
        BoolTensor: :math:`[N]`.

    Raises:
        ValueError: If the shape or :obj:`beta` is wrong.
    """
    _check_stored(stored)
    _check_positive('beta', beta)
    count = stored.size(0)
    inside = 2 * (count - 1) * count * beta * float(_radius(stored)) ** 2
    if inside == 0:  # one pattern, or all are zero
        return torch.ones_like(stored[:, 0]).bool()
    least = 2 / (beta * count) + math.log(inside) / beta
    return pattern_separation(stored) >= least


def retrieval_error_bound(
    stored: Tensor, distance: float | Tensor, beta: float = 1.0
) -> Tensor:
    r"""Largest distance from a pattern after one update, Eq. (3).

    Args:
        stored (Tensor): Patterns :math:`[N, d]`.
        distance (float or Tensor): r, of a state from pattern i, one or
            :math:`[N]`.
        beta (float, optional): :math:`\beta > 0`. (default: :obj:`1.0`)

    Returns:
        Tensor: :math:`[N]`, of every pattern; above 2 M it says nothing.

    Raises:
        ValueError: If the shape or :obj:`beta` is wrong.
    """
    return 2 * _radius(stored) * _leak(stored, distance, beta)


def contraction_bound(
    stored: Tensor, distance: float | Tensor, beta: float = 1.0
) -> Tensor:
    r"""Largest factor of the distance from a fixed point, Eq. (4).

    Args:
        stored (Tensor): Patterns :math:`[N, d]`.
        distance (float or Tensor): r, the larger of the distances of a state
            and of the fixed point from pattern i, one or :math:`[N]`.
        beta (float, optional): :math:`\beta > 0`. (default: :obj:`1.0`)

    Returns:
        Tensor: :math:`[N]`, of every pattern; below 1, updates converge.

    Raises:
        ValueError: If the shape or :obj:`beta` is wrong.
    """
    scale = 2 * beta * stored.size(0) * _radius(stored).square()
    return scale * _leak(stored, distance, beta)


def storage_capacity(
    dim: int,
    beta: float = 1.0,
    radius_factor: float = 1.0,
    failure: float = 0.001,
) -> float:
    r"""Number of random patterns on a sphere that can be stored.

    With :math:`M = K \sqrt{d - 1}`, probability 1 - p and Lambert's
    :math:`W_0`,

    .. math::
        N \ge \sqrt{p}\; c^{\frac{d-1}{4}}, \quad
        c = \frac{b}{W_0(\exp(a + \ln b))}, \quad
        a = \frac{2}{d-1} (1 + \ln(2 \beta K^2 p (d-1))), \quad
        b = \frac{2 K^2 \beta}{5}

    Exponential in d; the constants are far from tight (Ramsauer et al.
    2020, theorem 3).

    Args:
        dim (int): :math:`d \ge 2`.
        beta (float, optional): :math:`\beta > 0`. (default: :obj:`1.0`)
        radius_factor (float, optional): K > 0. (default: :obj:`1.0`)
        failure (float, optional): p, between 0 and 1.
            (default: :obj:`0.001`)

    Returns:
        float: The bound N, or 0 where the theorem does not apply,
        :math:`c < (2 / \sqrt{p})^{4 / (d - 1)}`.

    Raises:
        ValueError: If an argument is out of range.
    """
    if dim < 2:
        raise ValueError(f"'dim' must be >= 2 (got {dim})")
    _check_positive('beta', beta)
    _check_positive('radius_factor', radius_factor)
    if not 0 < failure < 1:
        raise ValueError(f"'failure' must be between 0 and 1 (got {failure})")
    n = dim - 1
    squared = radius_factor**2
    a = 2 / n * (1 + math.log(2 * beta * squared * failure * n))
    b = 2 * squared * beta / 5
    c = b / float(lambertw(b * math.exp(a)).real)
    if c < (2 / math.sqrt(failure)) ** (4 / n):
        return 0.0
    return math.sqrt(failure) * c ** (n / 4)


def binary_capacity(
    dim: int, interaction: str = 'power', degree: int = 2
) -> float:
    r"""Number of random binary patterns that are stored without errors.

    .. math::
        \frac{1}{2 (2a - 3)!!} \frac{d^{a-1}}{\ln d} \quad (z^a), \qquad
        2^{d / 2} \quad (\exp)

    for large d; a = 2 is the classical network (Krotov, Hopfield 2016;
    Demircigil et al. 2017).

    Args:
        dim (int): :math:`d \ge 2`.
        interaction (str, optional): :obj:`"power"` or :obj:`"exp"`.
            (default: :obj:`"power"`)
        degree (int, optional): :math:`a \ge 2`. (default: :obj:`2`)

    Raises:
        ValueError: If an argument is out of range.
    """
    if dim < 2 or degree < 2:
        raise ValueError(
            f"'dim' and 'degree' must be >= 2 (got {dim} and {degree})"
        )
    if interaction == 'exp':
        return 2.0 ** (dim / 2)
    if interaction != 'power':
        raise ValueError(
            f"'interaction' must be 'power' or 'exp' (got {interaction!r})"
        )
    odd = math.prod(range(1, 2 * degree - 2, 2))  # (2a - 3)!!
    return dim ** (degree - 1) / (2 * odd * math.log(dim))


def _leak(stored: Tensor, distance: float | Tensor, beta: float) -> Tensor:
    """Eq. (2), :math:`[N]`."""
    _check_stored(stored)
    _check_positive('beta', beta)
    gap = pattern_separation(stored) - 2 * distance * _radius(stored)
    return (stored.size(0) - 1) * (-beta * gap).exp()


def _radius(stored: Tensor) -> Tensor:
    """M, a scalar."""
    norms = stored.norm(dim=-1)
    return norms.amax() if norms.numel() else norms.new_zeros(())


def _check_stored(stored: Tensor) -> None:
    if stored.dim() != 2:
        raise ValueError(
            f"'stored' must have the shape [N, d] (got {list(stored.shape)})"
        )


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"'{name}' must be > 0 (got {value})")
