r"""Diffusion energy: every node at rest near its past and near the others.

With :math:`r_{ij} = \lVert x_i - x_j \rVert^2`, a concave penalty
:math:`\delta` and its slope f (:mod:`.diffusivity`), over ordered pairs of
nodes of the same graph,

.. math::
    E(x, k) = \sum_i \lVert x_i - x_i^k \rVert^2
              + \lambda \sum_{i, j} \delta(r_{ij})                   (1)

    \frac{\partial E}{\partial x_i} = 2 (x_i - x_i^k)
              + 4 \lambda \sum_j f(r_{ij}) (x_i - x_j)               (2)

    x_i^{k+1} = (1 - \tau) x_i^k + \tau \sum_j S_{ij} x_j^k, \quad
    S_{ij} = \frac{f(r_{ij})}{d_i}, \quad d_i = \sum_l f(r_{il})     (3)

(DIFFormer, eq. 2 to 4). The step (3) is :math:`x_i - \frac{\tau}{4 \lambda
d_i} \frac{\partial E}{\partial x_i}`, at :math:`x = x^k`. It does not raise
the energy, :math:`E(x^{k+1}, k) \le E(x^k, k)`, if every node keeps to

.. math::
    \tau_i \le \frac{4 \lambda d_i}{1 + 4 \lambda d_i}               (4)

The proof is in the docs ("Diffusion"). With the least :math:`d_i` of a graph
it is a bound for the graph. A larger step may raise E.

With :obj:`edge_index`, the pairs are the edges, each half in either
direction: the energy of attention over neighbours. On a list that holds both
directions this is the sum over in-edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .diffusivity import (
    check_state,
    pair_diffusivity,
    pair_penalty,
)
from .edges import both_ends, checked_edges, net_flow
from .pairs import pair_penalties, pair_pulls
from .reduce import reduce_energy

__all__ = [
    'diffusion_change',
    'diffusion_energy',
    'diffusion_energy_grad',
    'diffusion_step',
    'max_stable_tau',
]


def diffusion_energy(
    x: Tensor,
    previous: Tensor | None = None,
    kernel: str = 'simple',
    strength: float = 1.0,
    edge_index: Any = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    reduction: str = 'graph',
) -> Tensor:
    r"""Energy of a state, Eq. (1).

    Memory stays linear in N. Time is :math:`O(N C^2)` for :obj:`"simple"`,
    exactly, :math:`O(N^2 C)` for :obj:`"sigmoid"` and :math:`O(E C)` on
    edges. Sums over blocks of pairs (:obj:`"sigmoid"`) can be differentiated
    once.

    Args:
        x (Tensor): State :math:`[N, C]`.
        previous (Tensor, optional): :math:`x^k`, :math:`[N, C]`.
            (default: :obj:`x` itself)
        kernel (str, optional): :obj:`"simple"` (DIFFormer-s; states within
            the unit ball, such as unit vectors) or :obj:`"sigmoid"`
            (DIFFormer-a; any states). (default: :obj:`"simple"`)
        strength (float, optional): :math:`\lambda \ge 0`.
            (default: :obj:`1.0`)
        edge_index (Adj or GraphCache, optional): Only these pairs.
            (default: all pairs of a graph, a node and itself among them)
        batch (LongTensor, optional): Graph of every node, :math:`[N]`, in
            any order; nodes of different graphs make no pairs.
        batch_size (int, optional): Number of graphs; without it, the largest
            entry of :obj:`batch` is read from the device.
        reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.
            (default: :obj:`"graph"`)

    Returns:
        Tensor: A scalar, :math:`[B]` or :math:`[N]`, float32 at least.

    Raises:
        ValueError: If a shape, the kernel or the strength is wrong, or the
            kernel does not admit the state.
    """
    check_state(x, kernel)
    _check(x, previous, strength)
    pairs = kernel, edge_index, batch, batch_size
    energy = strength * _penalties(x, *pairs)  # [N]
    if previous is not None:
        energy = energy + _squares(x, previous).to(energy.dtype)
    return reduce_energy(energy, batch, batch_size, reduction)


def diffusion_energy_grad(
    x: Tensor,
    previous: Tensor | None = None,
    kernel: str = 'simple',
    strength: float = 1.0,
    edge_index: Any = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""Gradient of the summed energy, Eq. (2), :math:`[N, C]`.

    The arguments are those of :func:`diffusion_energy`.
    """
    check_state(x, kernel)
    _check(x, previous, strength)
    _, pull = _pulls(x, kernel, edge_index, batch, batch_size)
    grad = -4 * strength * pull
    if previous is not None:
        grad = grad + 2 * (_wide(x) - _wide(previous))
    return grad.to(x.dtype)


def diffusion_step(
    x: Tensor,
    tau: float | Tensor,
    kernel: str = 'simple',
    edge_index: Any = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""One step of diffusion, Eq. (3), without a matrix N x N.

    Args:
        x (Tensor): State :math:`[N, C]`.
        tau (float or Tensor): Step size in [0, 1], one or :math:`[N]`.
        kernel (str, optional): See :func:`diffusion_energy`.
        edge_index (Adj or GraphCache, optional): Only these pairs.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`.
        batch_size (int, optional): Number of graphs.

    Returns:
        Tensor: :math:`x^{k+1}`, :math:`[N, C]`; a node without pairs stays.

    Raises:
        ValueError: As in :func:`diffusion_energy`, and if a step size lies
            outside [0, 1].
    """
    check_state(x, kernel)
    move = _move(x, tau, kernel, edge_index, batch, batch_size)
    return (x + move).to(x.dtype)


def max_stable_tau(
    x: Tensor,
    kernel: str = 'simple',
    strength: float = 1.0,
    edge_index: Any = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    reduction: str = 'graph',
) -> Tensor:
    r"""Largest step size that is proved not to raise the energy, Eq. (4).

    It holds for one step from :obj:`x`; ask again after it. Detached.

    Args:
        x (Tensor): State :math:`[N, C]`.
        kernel (str, optional): See :func:`diffusion_energy`.
        strength (float, optional): :math:`\lambda \ge 0`.
            (default: :obj:`1.0`)
        edge_index (Adj or GraphCache, optional): Only these pairs.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`.
        batch_size (int, optional): Number of graphs.
        reduction (str, optional): :obj:`"graph"` for the bound of every
            graph, :obj:`"node"` for the larger ones of its nodes.
            (default: :obj:`"graph"`)

    Returns:
        Tensor: A scalar, :math:`[B]` or :math:`[N]`, in [0, 1]; 1 for nodes
        without pairs and graphs without nodes, which no step moves.

    Raises:
        ValueError: As in :func:`diffusion_energy`.
    """
    if reduction not in ('graph', 'node'):
        raise ValueError(
            f"'reduction' must be 'graph' or 'node' (got {reduction!r})"
        )
    check_state(x, kernel)
    _check(x, None, strength)
    degree, _ = _pulls(x.detach(), kernel, edge_index, batch, batch_size)
    slope = 4 * strength * degree
    tau = (slope / (1 + slope)).masked_fill(degree == 0, 1.0)  # [N]
    if reduction == 'node':
        return tau
    if batch is None:
        return torch.cat([tau, tau.new_ones(1)]).min()
    if batch_size is None:
        batch_size = int(batch.max()) + 1 if batch.numel() else 0
    one = tau.new_ones(batch_size)
    return one.scatter_reduce(0, batch.long(), tau, 'amin')


@torch.no_grad()
def diffusion_change(
    x: Tensor,
    tau: float | Tensor,
    kernel: str = 'simple',
    strength: float = 1.0,
    edge_index: Any = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""What a step does to the energy: :math:`E(x^{k+1}, k) - E(x^k, k)`.

    Not positive means that the step descends. Evaluated in float64 and
    detached, since it is a small difference of large sums.

    Args:
        x (Tensor): State :math:`x^k`, :math:`[N, C]`.
        tau (float or Tensor): Step size in [0, 1], one or :math:`[N]`.
        kernel (str, optional): See :func:`diffusion_energy`.
        strength (float, optional): :math:`\lambda \ge 0`.
            (default: :obj:`1.0`)
        edge_index (Adj or GraphCache, optional): Only these pairs.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`.
        batch_size (int, optional): Number of graphs.

    Returns:
        Tensor: A scalar, or :math:`[B]` with :obj:`batch`.

    Raises:
        ValueError: As in :func:`diffusion_step`.
    """
    check_state(x, kernel)
    _check(x, None, strength)
    before, pairs = x.double(), (kernel, edge_index, batch, batch_size)
    after = before + _move(before, tau, *pairs)
    rise = _penalties(after, *pairs) - _penalties(before, *pairs)
    rise = strength * rise + _squares(after, before)  # [N]
    return reduce_energy(rise, batch, batch_size)


def _penalties(
    x: Tensor,
    kernel: str,
    edge_index: Any,
    batch: Tensor | None,
    batch_size: int | None,
) -> Tensor:
    r"""Sum of :math:`\delta(r_{ij})` over the pairs of a node, [N]."""
    x = _wide(x)
    if edge_index is None:
        return pair_penalties(x, kernel, batch, batch_size)
    edges, _ = checked_edges(edge_index, None, x.size(0))
    distance = _across(x, edges).square().sum(-1)  # [E]
    return both_ends(pair_penalty(distance, kernel), edges, x.size(0))


def _pulls(
    x: Tensor,
    kernel: str,
    edge_index: Any,
    batch: Tensor | None,
    batch_size: int | None,
) -> tuple[Tensor, Tensor]:
    r"""Degree d [N] and :math:`\sum_j f(r_{ij}) (x_j - x_i)`, [N, C]."""
    x = _wide(x)
    if edge_index is None:
        return pair_pulls(x, kernel, batch, batch_size)
    edges, _ = checked_edges(edge_index, None, x.size(0))
    flow = _across(x, edges)  # [E, C]
    weight = pair_diffusivity(flow.square().sum(-1), kernel)  # [E]
    degree = both_ends(weight, edges, x.size(0))
    return degree, net_flow(weight.unsqueeze(-1) * flow, edges, x.size(0))


def _move(
    x: Tensor,
    tau: float | Tensor,
    kernel: str,
    edge_index: Any,
    batch: Tensor | None,
    batch_size: int | None,
) -> Tensor:
    r"""The change :math:`\tau (S x - x)` of Eq. (3), [N, C]."""
    tau = _step_size(tau, x)
    degree, pull = _pulls(x, kernel, edge_index, batch, batch_size)
    degree = degree.masked_fill(degree == 0, 1.0)  # there, the pull is 0
    return tau * pull / degree.unsqueeze(-1)


def _squares(x: Tensor, previous: Tensor) -> Tensor:
    return (_wide(x) - _wide(previous)).square().sum(-1)  # [N]


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _across(x: Tensor, edges: Tensor) -> Tensor:
    """State of the source as seen from the target."""
    return x[edges[0]] - x[edges[1]]


def _step_size(tau: float | Tensor, x: Tensor) -> Tensor:
    """The step size as something that scales rows of x."""
    wide = torch.promote_types(x.dtype, torch.float32)
    tau = torch.as_tensor(tau, dtype=wide, device=x.device)
    if tau.dim() > 0 and tau.shape != x.shape[:1]:
        raise ValueError(
            f"'tau' must be one number or one per node, [{x.size(0)}] (got "
            f'{list(tau.shape)}); turn one per graph into tau[batch]'
        )
    if not torch.compiler.is_compiling() and tau.numel():
        low, high = (float(v) for v in torch.aminmax(tau.detach()))
        if not 0 <= low <= high <= 1:
            raise ValueError(
                f"'tau' must lie in [0, 1] (got {low if low < 0 else high})"
            )
    return tau.unsqueeze(-1) if tau.dim() else tau


def _check(x: Tensor, previous: Tensor | None, strength: float) -> None:
    if not 0 <= strength < float('inf'):
        raise ValueError(f"'strength' must be >= 0 (got {strength})")
    if previous is not None and previous.shape != x.shape:
        raise ValueError(
            f"'previous' must have the shape of x, {list(x.shape)} "
            f'(got {list(previous.shape)})'
        )
