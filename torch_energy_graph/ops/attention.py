"""Energy attention: the public operator in front of the backends."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from . import edge_wise, library
from .backend import active_backend
from .graph import GraphCache

__all__ = ['energy_attention']


def energy_attention(
    q: Tensor,
    k: Tensor,
    graph: Any,
    beta: float | Tensor,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Log-sum-exp of the attention logits, and its gradients.

    With logits :math:`l_e = \beta_h\, q_i^\top k_j + b_e` of the edge
    e = (j, i) and the energy
    :math:`E = -\sum_h \frac{1}{\beta_h} \sum_i L_i` (Energy Transformer,
    eq. 3), it returns

    .. math::
        L_i = \log \sum_{e \in \mathcal{N}(i)} \exp(l_e), \qquad
        u_i = \sum_e p_e k_j = -\frac{\partial E}{\partial q_i}, \qquad
        v_j = \sum_e p_e q_i = -\frac{\partial E}{\partial k_j},

    with :math:`p_e = \exp(l_e - L_i)`. Parallel edges count as often as they
    stand; a target without in-edges has :math:`L_i = -\infty`, u = 0 and no
    energy. Log-sum-exps are float32 at least.

    Args:
        q (Tensor): Queries, :math:`[N_\mathrm{dst}, H, Y]`.
        k (Tensor): Keys, :math:`[N_\mathrm{src}, H, Y]`.
        graph (Adj or GraphCache): Edges from keys to queries.
        beta (float or Tensor): Inverse temperature > 0, one for all or
            :math:`[H]`.
        bias (Tensor, optional): Additive logit bias in the caller's edge
            order, :math:`[E, H]`. (default: :obj:`None`)

    Returns:
        (Tensor, Tensor, Tensor): lse :math:`[N_\mathrm{dst}, H]`,
        u :math:`[N_\mathrm{dst}, H, Y]`, v :math:`[N_\mathrm{src}, H, Y]`.

    Raises:
        ValueError: If shapes, types or devices do not fit together.
        IndexError: If an edge names a node that does not exist.
    """
    _check_inputs(q, k, beta)
    graph = GraphCache.from_edge_index(graph, (k.size(0), q.size(0)))
    _check_graph(q, graph, bias)
    evaluate = _by_op
    if active_backend(q.device.type) == 'reference':
        evaluate = edge_wise.forward
    if not isinstance(beta, Tensor) and beta == 1:
        return evaluate(q, k, bias, graph)
    scale = beta.view(1, -1, 1) if isinstance(beta, Tensor) else beta
    scaled = (q * scale).to(q.dtype)
    lse, u, v = evaluate(scaled, k, bias, graph)
    return lse, u, (v / scale).to(k.dtype)


def _by_op(
    q: Tensor, k: Tensor, bias: Tensor | None, graph: GraphCache
) -> tuple[Tensor, Tensor, Tensor]:
    return library.energy_attention(q, k, bias, graph.arrays())


def _check_inputs(q: Tensor, k: Tensor, beta: float | Tensor) -> None:
    if q.dim() != 3 or k.dim() != 3 or q.shape[1:] != k.shape[1:]:
        raise ValueError(
            f"'energy_attention' expects q [N_dst, H, Y] and k [N_src, H, Y] "
            f'of equal H and Y (got {list(q.shape)} and {list(k.shape)})'
        )
    if q.dtype != k.dtype or not q.is_floating_point():
        raise ValueError(
            f"'energy_attention' expects q and k of one floating-point type "
            f'(got {q.dtype} and {k.dtype})'
        )
    if isinstance(beta, Tensor):
        if beta.shape not in ((), (1,), (q.size(1),)):
            raise ValueError(
                f"'energy_attention' expects one beta, or one for each of "
                f'the {q.size(1)} heads (got shape {list(beta.shape)})'
            )
    elif not 0 < beta < float('inf'):
        raise ValueError(
            f"'energy_attention' expects a finite beta > 0 (got {beta})"
        )


def _check_graph(q: Tensor, graph: GraphCache, bias: Tensor | None) -> None:
    if graph.device != q.device:
        raise ValueError(
            f"'energy_attention' got features on {q.device} and edges on "
            f'{graph.device}; move one of them with .to()'
        )
    if bias is None:
        return
    if bias.shape != (graph.num_edges, q.size(1)):
        raise ValueError(
            f"'energy_attention' expects a bias of shape [E, H] = "
            f'[{graph.num_edges}, {q.size(1)}] (got {list(bias.shape)})'
        )
    if bias.device != q.device:
        raise ValueError(
            f"'energy_attention' got features on {q.device} and a bias on "
            f'{bias.device}; move one of them with .to()'
        )
