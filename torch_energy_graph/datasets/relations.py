"""Several relations between the same nodes, as one list of edges."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.utils import coalesce

__all__ = ['Edges', 'join_relations']

Edges = Literal['typed', 'merged', 'simple']


def join_relations(
    relations: Mapping[str, NDArray[Any]], edges: Edges
) -> dict[str, Tensor]:
    r"""Fields :obj:`edge_index` and, of several relations, :obj:`edge_type`.

    Args:
        relations (Mapping): Edges :math:`[2, E_r]` by name, one after the
            other in the result.
        edges (str): 'typed': types :math:`[E]` number the relations in their
            order. 'merged': no types; a pair of nodes in several relations
            counts as often. 'simple': no types; each pair counts once, and
            edges are sorted.
    """
    if edges not in get_args(Edges):
        raise ValueError(
            f"expected 'edges' as one of {', '.join(get_args(Edges))} (got "
            f'{edges!r})'
        )
    parts = [torch.from_numpy(e.astype(np.int64)) for e in relations.values()]
    edge_index = torch.cat(parts, dim=1)  # [2, E]
    if edges == 'simple':
        return {'edge_index': coalesce(edge_index)}
    fields = {'edge_index': edge_index}
    if edges == 'typed' and len(parts) > 1:
        counts = torch.tensor([part.size(1) for part in parts])
        fields['edge_type'] = torch.arange(len(parts)).repeat_interleave(
            counts
        )  # [E]
    return fields
