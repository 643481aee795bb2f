from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn import Parameter

from torch_geometric.typing import Adj, OptTensor

from torch_energy_graph.ops import coo_edges

__all__ = ['ClassToken', 'TokenGraph']


class TokenGraph(NamedTuple):
    r"""Tokens and the edges between them."""

    x: Tensor  # [N, C]
    edge_index: Adj
    edge_weight: OptTensor  # [E]
    edge_attr: OptTensor  # [E, D]
    batch: OptTensor  # [N]
    batch_size: Optional[int]


class ClassToken(torch.nn.Module):
    r"""One learned virtual node per graph, joined with all nodes of its
    graph in both directions, as by PyG's ``VirtualNode`` transform.

    Nodes keep their numbers; the token of graph b is node N + b. The new
    edges come last: nodes to tokens, then tokens to nodes. They have weight
    1 and zeros as edge features. Tokens start with standard deviation 0.02.

    Args:
        channels (int): Size C of the tokens.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.channels = channels
        self.weight = Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws the token anew."""
        torch.nn.init.normal_(self.weight, std=0.02)

    def forward(self, graph: TokenGraph, batch_size: int) -> TokenGraph:
        r"""The same graphs with their virtual nodes.

        Args:
            graph (TokenGraph): N nodes; without :obj:`batch`, one graph.
            batch_size (int): Number of graphs B.
        """
        x, edge_index, edge_weight, edge_attr, batch, _ = graph
        num_nodes = x.size(0)
        edge_index = coo_edges(edge_index)[0].long()
        _check_range(edge_index, num_nodes)
        nodes = torch.arange(num_nodes, device=x.device)
        graphs = torch.arange(batch_size, device=x.device)
        if batch is None:
            tokens = torch.full_like(nodes, num_nodes)
        else:
            tokens = num_nodes + batch
            batch = torch.cat([batch, graphs])
        up = torch.stack([nodes, tokens])
        return TokenGraph(
            torch.cat([x, self.weight.to(x.dtype).expand(batch_size, -1)]),
            torch.cat([edge_index, up, up.flip(0)], dim=1),  # [2, E + 2N]
            _append(edge_weight, 2 * num_nodes, 1.0),
            _append(edge_attr, 2 * num_nodes, 0.0),
            batch,
            None if batch is None else batch_size,
        )

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}({self.channels})'


def _check_range(edge_index: Tensor, num_nodes: int) -> None:
    """One more, and an edge would end in a virtual node."""
    if torch.compiler.is_compiling() or edge_index.numel() == 0:
        return
    if int(edge_index.max()) >= num_nodes:
        raise IndexError(
            f"'edge_index' names node {int(edge_index.max())}, but there are "
            f'only {num_nodes}; check the edge list'
        )


def _append(value: OptTensor, count: int, fill: float) -> OptTensor:
    if value is None:
        return None
    return torch.cat([value, value.new_full((count, *value.shape[1:]), fill)])
