r"""Attention energy: a node is at rest where its neighbours explain it.

With queries :math:`q_i^h = W_Q^h g_i`, keys :math:`k_j^h = W_K^h g_j` and
logits :math:`l_e^h = \beta_h\, q_i^h \cdot k_j^h + b_e^h` of an edge
e = (j, i),

.. math::
    E(g) = -\sum_h \frac{1}{\beta_h} \sum_{i : \mathcal{N}(i) \ne \emptyset}
           \log \sum_{e \in \mathcal{N}(i)} \exp(l_e^h)              (1)

    -\frac{\partial E}{\partial g_n}
         = \sum_h W_Q^{h\top} u_n^h + W_K^{h\top} v_n^h,
    \quad u_i^h = \sum_{e = (j, i)} p_e^h k_j^h,
    \quad v_j^h = \sum_{e = (j, i)} p_e^h q_i^h                      (2)

where :math:`p_e^h` is the softmax of the logits over the in-edges of i. The
first term of (2) reads a node as a query, the second as a key: it runs along
the transposed edges with weights that were normalised at the query, so (2)
is exact on directed graphs, too. Energy Transformer, eq. 3 and 4, with the
sum over all tokens replaced by in-neighbours.

Several relations have weights of their own and their energies add up. They
are evaluated as one graph: node n seen by relation r is node
:math:`n R + r` of a lifted graph (:func:`lift_relations`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_energy_graph.ops import GraphCache, coo_edges, energy_attention

__all__ = ['attention_energy', 'attention_energy_grad', 'lift_relations']


def attention_energy(
    g: Tensor,
    weight_q: Tensor,
    weight_k: Tensor,
    edge_index: Any,
    beta: float | Tensor | None = None,
    bias: Tensor | None = None,
    edge_type: Tensor | None = None,
) -> Tensor:
    r"""Energy of every node as a query, Eq. (1).

    Args:
        g (Tensor): Activations :math:`[N, C]`.
        weight_q (Tensor): :math:`W_Q`, :math:`[H, Y, C]`, or
            :math:`[R, H, Y, C]` with :obj:`edge_type`.
        weight_k (Tensor): :math:`W_K`, of the same shape.
        edge_index (Adj or GraphCache): Edges from keys to queries; with
            relations, a cache must be of the lifted graph.
        beta (float or Tensor, optional): :math:`\beta > 0`, one or
            :math:`[H]`. (default: :math:`1 / \sqrt{Y}`)
        bias (Tensor, optional): Logit bias :math:`[E, H]`.
        edge_type (LongTensor, optional): Relation of every edge,
            :math:`[E]`.

    Returns:
        Tensor: :math:`[N]`, float32 at least; its sum is :math:`E`.

    Raises:
        ValueError: If shapes do not fit together.
    """
    q, k, graph, beta = _project(
        g, weight_q, weight_k, edge_index, beta, edge_type
    )
    lse, _, _ = energy_attention(q, k, graph, beta, bias)  # [N * R, H]
    lse = lse.masked_fill(lse.isinf(), 0.0)
    num_relations = weight_q.size(0) if weight_q.dim() == 4 else 1
    energy = -(lse / beta).sum(-1)  # [N * R]
    return energy.view(g.size(0), num_relations).sum(-1)


def attention_energy_grad(
    g: Tensor,
    weight_q: Tensor,
    weight_k: Tensor,
    edge_index: Any,
    beta: float | Tensor | None = None,
    bias: Tensor | None = None,
    edge_type: Tensor | None = None,
) -> Tensor:
    r"""Gradient of the summed energy, Eq. (2), :math:`[N, C]`.

    The arguments are those of :func:`attention_energy`.
    """
    if beta is None:
        beta = 1.0 / math.sqrt(weight_q.size(-2))
    # beta goes into the weights: in the nodes, it would cost two copies
    scale = beta.view(-1, 1, 1) if isinstance(beta, Tensor) else beta
    scaled = (weight_q * scale).to(weight_q.dtype)
    q, k, graph, _ = _project(g, scaled, weight_k, edge_index, 1.0, edge_type)
    _, u, v = energy_attention(q, k, graph, 1.0, bias)
    del q, k
    unscaled = (weight_k / scale).to(weight_k.dtype)
    return -(_back(u, weight_q) + _back(v, unscaled))


def lift_relations(
    edge_index: Tensor, edge_type: Tensor, num_relations: int
) -> Tensor:
    r"""Edges of the graph in which every relation has its own nodes.

    Args:
        edge_index (LongTensor): Edges :math:`[2, E]`.
        edge_type (LongTensor): Relation of every edge, :math:`[E]`.
        num_relations (int): :math:`R`.

    Returns:
        LongTensor: :math:`[2, E]` over :math:`N R` nodes, edges in the same
        order; node n of relation r is :math:`n R + r`.

    Raises:
        ValueError: If a relation is missing or out of range.
    """
    if edge_type.shape != edge_index.shape[1:]:
        raise ValueError(
            f"'edge_type' must hold one relation per edge, "
            f'[{edge_index.size(1)}] (got {list(edge_type.shape)})'
        )
    if edge_type.is_floating_point():
        raise ValueError(
            f"'edge_type' must hold integers (got {edge_type.dtype})"
        )
    if not torch.compiler.is_compiling() and edge_type.numel():
        low, high = (int(v) for v in torch.aminmax(edge_type))
        if low < 0 or high >= num_relations:
            raise ValueError(
                f"'edge_type' must be in 0 to {num_relations - 1} "
                f'(got {low if low < 0 else high}); raise num_relations?'
            )
    return edge_index.long() * num_relations + edge_type.long()


def _project(
    g: Tensor,
    weight_q: Tensor,
    weight_k: Tensor,
    edge_index: Any,
    beta: float | Tensor | None,
    edge_type: Tensor | None,
) -> tuple[Tensor, Tensor, GraphCache, float | Tensor]:
    """Queries, keys `[N * R, H, Y]` and the graph between them."""
    if weight_q.shape != weight_k.shape or weight_q.dim() not in (3, 4):
        raise ValueError(
            f'the attention energy expects weights [H, Y, C] or '
            f'[R, H, Y, C] of equal shape (got {list(weight_q.shape)} and '
            f'{list(weight_k.shape)})'
        )
    num_relations = weight_q.size(0) if weight_q.dim() == 4 else 1
    lifted = isinstance(edge_index, GraphCache) or weight_q.dim() == 3
    if (edge_type is None) != lifted:
        raise ValueError(
            "'edge_type' belongs to weights [R, H, Y, C] and a plain "
            'edge_index; a cache must be of the lifted graph'
        )
    if edge_type is not None:
        edges, _ = coo_edges(edge_index)
        edge_index = lift_relations(edges, edge_type, num_relations)
    graph = GraphCache.from_edge_index(edge_index, g.size(0) * num_relations)
    if beta is None:
        beta = 1.0 / math.sqrt(weight_q.size(-2))
    return _heads(g, weight_q), _heads(g, weight_k), graph, beta


def _heads(g: Tensor, weight: Tensor) -> Tensor:
    *_, num_heads, head_channels, channels = weight.shape
    out = F.linear(g, weight.reshape(-1, channels))  # [N, R * H * Y]
    return out.view(-1, num_heads, head_channels)


def _back(heads: Tensor, weight: Tensor) -> Tensor:
    flat = weight.reshape(-1, weight.size(-1))  # [R * H * Y, C]
    return heads.reshape(-1, flat.size(0)) @ flat
