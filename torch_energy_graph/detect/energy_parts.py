r"""The energy of one node as a sum of named parts.

With :math:`l_e = \beta_h s_e + b_e` the logits of the in-edges of node i,
:math:`s_e = q_i^\top k_j`, and :math:`p_e` their softmax,

.. math::
    E_i = \sum_{r, h} \Big(
        \underbrace{-\sum_e p_e s_e}_{\text{interaction}}
        \underbrace{- \frac{1}{\beta_h} \sum_e p_e b_e}_{\text{edge features}}
        + \underbrace{\frac{1}{\beta_h} \sum_e p_e \log p_e}_{\text{entropy}}
        \Big) + \underbrace{E^\mathrm{memories}_i}_{\text{memories}}  (1)

since :math:`\log \sum_e e^{l_e} = \sum_e p_e l_e - \sum_e p_e \log p_e`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.nn import EnergyTransformerConv

__all__ = ['energy_parts']

Row = dict[str, Any]


@torch.no_grad()
def energy_parts(
    block: EnergyTransformerConv, g: Tensor, graph: Data, node: int
) -> list[Row]:
    r"""The terms of Eq. (1).

    Args:
        block (EnergyTransformerConv): The block.
        g (Tensor): Activations :math:`[N, C]`, in the type of the block.
        graph (Data): Holds all in-edges of the node.
        node (int): i.

    Returns:
        list: Dictionaries with ``part``, ``neighbor``, ``relation``, ``head``
        (:obj:`None` where they do not apply) and ``energy``; parallel edges
        of a neighbour are one row.
    """
    attention = block.attention
    edges = (graph.edge_index[1] == node).nonzero().view(-1)  # [D]
    source = graph.edge_index[0, edges]
    bias = None
    if attention.edge_dim is not None:
        bias = attention.lin_edge(graph.edge_attr[edges])  # [D, H]
    shape = (-1, attention.heads, attention.head_channels, g.size(1))
    rows: list[Row] = []
    for relation in range(attention.num_relations or 1):
        chosen = torch.ones_like(source, dtype=torch.bool)
        if attention.num_relations is not None:
            chosen = graph.edge_type[edges] == relation
        if not bool(chosen.any()):
            continue
        weight_q = attention.weight_q.view(shape)[relation]  # [H, Y, C]
        weight_k = attention.weight_k.view(shape)[relation]
        q = weight_q @ g[node]  # [H, Y]
        k = torch.einsum('hyc,dc->dhy', weight_k, g[source[chosen]])
        rows += _attention_rows(
            (q * k).sum(-1),
            torch.as_tensor(attention.beta(), dtype=g.dtype).to(g),
            None if bias is None else bias[chosen],
            source[chosen],
            None if attention.num_relations is None else relation,
        )
    memories = block.memory.energy(g[[node]], reduction='node')
    return [*rows, _row('memories', float(memories))]


def _attention_rows(
    s: Tensor,
    beta: Tensor,
    bias: Tensor | None,
    source: Tensor,
    relation: int | None,
) -> list[Row]:
    """The terms of one relation; s and bias are [D, H]."""
    logits = beta * s if bias is None else beta * s + bias
    log_p = F.log_softmax(logits, dim=0)
    p = log_p.exp()
    terms = {'interaction': -p * s}
    if bias is not None:
        terms['edge features'] = -p * bias / beta
    neighbors, place = source.unique(return_inverse=True)
    rows = []
    for part, term in terms.items():
        total = term.new_zeros(len(neighbors), term.size(1))
        total.index_add_(0, place, term)
        rows += [
            _row(part, value, neighbor, relation, head)
            for neighbor, values in zip(
                neighbors.tolist(), total.tolist(), strict=True
            )
            for head, value in enumerate(values)
        ]
    entropy = (p * log_p).sum(0) / beta  # [H]
    rows += [
        _row('entropy', value, None, relation, head)
        for head, value in enumerate(entropy.tolist())
    ]
    return rows


def _row(
    part: str,
    energy: float,
    neighbor: int | None = None,
    relation: int | None = None,
    head: int | None = None,
) -> Row:
    return {
        'part': part,
        'neighbor': neighbor,
        'relation': relation,
        'head': head,
        'energy': energy,
    }
