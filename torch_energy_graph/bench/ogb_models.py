"""The models of leaderboard entries, by name."""

from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_torch_csc_tensor

from torch_energy_graph.nn.models.difformer import DIFFormer
from torch_energy_graph.ops import GraphCache

__all__ = ['MODELS', 'DIFFormerParams', 'GCNParams']


@dataclass(frozen=True)
class DIFFormerParams:
    """See :class:`~torch_energy_graph.nn.models.DIFFormer`."""

    title: ClassVar[str] = 'DIFFormer'

    hidden_channels: int = 64
    num_layers: int = 3
    dropout: float = 0.0
    heads: int = 1
    kernel: Literal['simple', 'sigmoid'] = 'simple'
    normalize: Literal['node', 'global'] = 'node'
    alpha: float = 0.5
    use_graph: bool = True
    graph_weight: float | None = None
    use_value: bool = True
    use_source: bool = False
    use_norm: bool = True
    use_residual: bool = True

    def build(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """Return a model with new weights."""
        return DIFFormer(
            in_channels, out_channels=out_channels, **asdict(self)
        )

    def edges(self, graph: Data) -> GraphCache:
        """Return the edges in both orders; layers normalise them."""
        return GraphCache.from_edge_index(graph.edge_index, graph.num_nodes)


@dataclass(frozen=True)
class GCNParams:
    """See :class:`torch_geometric.nn.GCN`."""

    title: ClassVar[str] = 'GCN'

    hidden_channels: int = 64
    num_layers: int = 3
    dropout: float = 0.0
    norm: Literal['batch', 'layer'] | None = 'batch'

    def build(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """Return a model with new weights."""
        return GCN(
            in_channels,
            out_channels=out_channels,
            normalize=False,
            **asdict(self),
        )

    def edges(self, graph: Data) -> Tensor:
        r"""Return the normalised matrix, transposed, CSR :math:`[N, N]`.

        A layer multiplies it; nothing of size :math:`E \times C` is held.
        """
        num_nodes = graph.num_nodes
        edge_index, weight = gcn_norm(
            graph.edge_index, num_nodes=num_nodes, dtype=graph.x.dtype
        )
        size = (num_nodes, num_nodes)
        # torch warns unless it is told whether to check what PyG makes
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            return to_torch_csc_tensor(edge_index, weight, size).t()


MODELS: dict[str, type[DIFFormerParams] | type[GCNParams]] = {
    'difformer': DIFFormerParams,
    'gcn': GCNParams,
}
