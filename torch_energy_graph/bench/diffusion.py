"""DIFFormer as entries of the benchmark, and what is left without its parts.

``mean_gcn`` and ``gcn_only`` have the skeleton of DIFFormer, with the mean of
all nodes, or nothing, in the place of the attention: they say what the
pairwise weights and the global term are worth.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.class_networks import (
    ClassParams,
    class_network,
    with_class_defaults,
)
from torch_energy_graph.nn.models import DIFFormer
from torch_energy_graph.ops import GraphCache

__all__ = [
    'GlobalTerm',
    'difformer',
    'difformer_a',
    'difformer_global',
    'difformer_set',
    'gcn_only',
    'mean_gcn',
]


@dataclass(frozen=True)
class SkeletonParams(ClassParams):
    """Parameters of the skeleton; they are those of ``DIFFormer``."""

    alpha: float = 0.5
    use_graph: bool = True
    graph_weight: float | None = None
    use_value: bool = False
    use_source: bool = False
    use_norm: bool = True
    use_residual: bool = True


@dataclass(frozen=True)
class DIFFormerParams(SkeletonParams):
    """Parameters of ``difformer``."""

    heads: int = 1
    kernel: Literal['simple', 'sigmoid'] = 'simple'
    normalize: Literal['node', 'global'] = 'node'


@dataclass(frozen=True)
class GlobalParams(DIFFormerParams):
    """Parameters of ``difformer_global``: the norms of the released code."""

    normalize: Literal['node', 'global'] = 'global'


@dataclass(frozen=True)
class SigmoidParams(DIFFormerParams):
    """Parameters of ``difformer_a``."""

    kernel: Literal['simple', 'sigmoid'] = 'sigmoid'


@dataclass(frozen=True)
class SetParams(DIFFormerParams):
    """Parameters of ``difformer_set``, which sees no edge."""

    use_graph: bool = False


class GlobalTerm(torch.nn.Module):
    r"""What stands in the place of the attention: the mean, or nothing.

    Args:
        value (torch.nn.Module, optional): The map of the values.
        weight (float): 1 for the mean of all values, 0 for nothing.
    """

    def __init__(self, value: torch.nn.Module | None, weight: float) -> None:
        super().__init__()
        self.lin_value = value
        self.weight = weight

    def mean_value(self, x: Tensor) -> Tensor:
        """Return the values :math:`[N, C]`, which the graph term spreads."""
        return x if self.lin_value is None else self.lin_value(x)

    def forward(
        self, x: Tensor, batch: None = None, batch_size: None = None
    ) -> Tensor:
        """Return the global term of one graph, :math:`[N, C]`."""
        mean = self.weight * self.mean_value(x).mean(0)
        return mean.expand(x.size(0), -1)


def _edges(data: Data, p: SkeletonParams) -> dict[str, Any]:
    if not p.use_graph:
        return {}
    cache = GraphCache.from_edge_index(data.edge_index, data.num_nodes)
    return {'edge_index': cache}


def _skeleton(
    data: Data, classes: int, p: SkeletonParams, **kwargs: Any
) -> DIFFormer:
    return DIFFormer(
        data.num_features,
        p.hidden_channels,
        classes,
        num_layers=p.num_layers,
        alpha=p.alpha,
        dropout=p.dropout,
        use_graph=p.use_graph,
        graph_weight=p.graph_weight,
        use_value=p.use_value,
        use_source=p.use_source,
        use_norm=p.use_norm,
        use_residual=p.use_residual,
        cached=p.num_parts is None,
        **kwargs,
    )


def _without_attention(
    data: Data, classes: int, p: SkeletonParams, weight: float
) -> DIFFormer:
    model = _skeleton(data, classes, p)
    for conv in model.convs:
        attention: Any = conv.attention
        conv.attention = GlobalTerm(attention.lin_value, weight)
    return model


@class_network('difformer', DIFFormerParams, _edges)
def difformer(data: Data, classes: int, p: DIFFormerParams) -> torch.nn.Module:
    """``DIFFormer``, with all its options."""
    return _skeleton(
        data, classes, p, heads=p.heads, kernel=p.kernel, normalize=p.normalize
    )


@class_network('mean_gcn', SkeletonParams, _edges)
def mean_gcn(data: Data, classes: int, p: SkeletonParams) -> torch.nn.Module:
    """The skeleton of DIFFormer with the mean of all nodes as attention."""
    return _without_attention(data, classes, p, 1.0)


@class_network('gcn_only', SkeletonParams, _edges)
def gcn_only(data: Data, classes: int, p: SkeletonParams) -> torch.nn.Module:
    """The skeleton of DIFFormer with the graph term alone."""
    return _without_attention(data, classes, p, 0.0)


difformer_global = with_class_defaults(
    'difformer', 'difformer_global', GlobalParams
)
difformer_a = with_class_defaults('difformer', 'difformer_a', SigmoidParams)
difformer_set = with_class_defaults('difformer', 'difformer_set', SetParams)
