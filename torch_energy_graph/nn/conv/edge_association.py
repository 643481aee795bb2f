from typing import Optional, Union

import torch
from torch import Tensor

from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import OptTensor

from torch_energy_graph.energies.retrieval import retrieval_energy
from torch_energy_graph.ops import GraphCache, energy_attention

__all__ = ['EdgeAssociation']


class EdgeAssociation:
    r"""Targets as states, and the keys of their in-edges.

    With a cache, updates are energy attention, in which no tensor of size
    :math:`E \cdot H \cdot d` appears; without one, the layer's messages.

    Args:
        layer (MessagePassing): Its messages are :obj:`edge_weights`
            :math:`[E, H]` and :obj:`read_edges`.
        state (Tensor): Initial states :math:`[N_\mathrm{dst}, H, d]`.
        keys (Tensor): :math:`[N_\mathrm{src}, H, d]`.
        edge_index (Tensor or GraphCache): Edges; a cache is for the softmax
            without edge features only.
        edge (Tensor, optional): Adds to keys and values, :math:`[E, H, d]`.
        beta (float or Tensor): Inverse temperature, one for all or
            :math:`[H]`.
        separation (str): Name of the separation function.
    """

    def __init__(
        self,
        layer: MessagePassing,
        state: Tensor,
        keys: Tensor,
        edge_index: Union[Tensor, GraphCache],
        edge: OptTensor,
        beta: Union[float, Tensor],
        separation: str,
    ):
        self.layer = layer
        self.state = state
        self.keys = keys
        self.edge_index = edge_index
        self.edge = edge
        self.beta = beta
        self.separation = separation

    @property
    def cache(self) -> Optional[GraphCache]:
        r"""The sorted edges, if updates run on them."""
        if isinstance(self.edge_index, GraphCache):
            return self.edge_index
        return None

    def edges(self) -> Tensor:
        r"""The edges in the caller's order, :math:`[2, E]`."""
        if isinstance(self.edge_index, GraphCache):
            return self.edge_index.edge_index()
        return self.edge_index

    def weights(self, state: Tensor) -> Tensor:
        r"""Association weights :math:`[E, H]`."""
        beta = self.beta
        if isinstance(beta, Tensor):
            beta = beta.to(state.dtype).unsqueeze(-1)
        return self.layer.edge_weights(
            self.edges(), beta * state, self.keys, self.edge
        )

    def step(self, state: Tensor) -> Tensor:
        r"""States after one update; 0 without in-edges."""
        if self.cache is not None:
            return energy_attention(state, self.keys, self.cache, self.beta)[1]
        return self.read(self.weights(state), self.keys)

    def read(self, alpha: Tensor, values: Tensor) -> Tensor:
        r"""Associated values :math:`[N_\mathrm{dst}, H, d]`."""
        num_targets = self.state.size(0)
        return self.layer.read_edges(
            self.edges(), alpha, values, self.edge, num_targets
        )

    def read_cached(self, state: Tensor, values: Tensor) -> Tensor:
        r"""Same as the weights of a state and :meth:`read`, on the cache.

        Values ride along with the keys, where states are zero.
        """
        wide_state = torch.cat([state, torch.zeros_like(state)], dim=-1)
        wide_keys = torch.cat([self.keys, values], dim=-1)
        _, out, _ = energy_attention(
            wide_state, wide_keys, self.cache, self.beta
        )
        return out[..., state.size(-1) :]

    def energy(self, state: Tensor) -> Tensor:
        r"""Energy of every state, :math:`[N_\mathrm{dst}, H]`."""
        src, dst = self.edges()
        stored = self.keys[src]  # [E, H, d]
        if self.edge is not None:
            stored = stored + self.edge
        return retrieval_energy(
            state, stored, self.beta, self.separation, index=dst
        )
