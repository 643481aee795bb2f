from typing import NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from torch_geometric.typing import OptTensor

from torch_energy_graph.dynamics import (
    EnergyTrace,
    attention_curvature,
    descend,
    safe_step_size,
)
from torch_energy_graph.energies.dense_attention import (
    dense_attention_energy,
    dense_attention_energy_grad,
)
from torch_energy_graph.nn.conv import (
    EnergyAttentionConv,
    EnergyTransformerConv,
)
from torch_energy_graph.nn.conv.attention_edges import AttentionEdges
from torch_energy_graph.ops import GraphCache

__all__ = ['AllTokens', 'EdgeTokens', 'ImageDynamics', 'batched_edges']


class AllTokens(NamedTuple):
    r"""Attention of every token to all N tokens of its image, in dense
    products. Values are those of :class:`EdgeTokens` on complete graphs.
    """

    attention: EnergyAttentionConv
    num_tokens: int
    self_loops: bool

    def descent(self, g: Tensor) -> Tensor:
        r""":math:`-\partial E / \partial g`, :math:`[M, C]`."""
        return -dense_attention_energy_grad(*self._arguments(g)).view_as(g)

    def energy(self, g: Tensor) -> Tensor:
        r"""Energy of every token as a query, :math:`[M]`."""
        return dense_attention_energy(*self._arguments(g)).flatten()

    def curvature(self, num_states: int) -> Tensor:
        r"""Curvature bound of the certified step, :math:`[M]`."""
        weight_q, weight_k = self.attention.weight_q, self.attention.weight_k
        degree = self.num_tokens - (0 if self.self_loops else 1)
        degrees = weight_q.new_full((num_states,), degree)
        return attention_curvature(weight_q, weight_k, degrees, degrees)

    def _arguments(self, g: Tensor):
        layer = self.attention
        sets = g.view(-1, self.num_tokens, g.size(-1))  # [B, N, C]
        beta = layer.beta()
        return sets, layer.weight_q, layer.weight_k, beta, self.self_loops


class EdgeTokens(NamedTuple):
    r"""Attention along prepared edges, by the sparse operator."""

    attention: EnergyAttentionConv
    edges: AttentionEdges

    def descent(self, g: Tensor) -> Tensor:
        r""":math:`-\partial E / \partial g`, :math:`[M, C]`."""
        return self.attention.descent(g, self.edges)

    def energy(self, g: Tensor) -> Tensor:
        r"""Energy of every token as a query, :math:`[M]`."""
        return self.attention.node_energy(g, self.edges)

    def curvature(self, num_states: int) -> Tensor:
        r"""Curvature bound of the certified step, :math:`[M]`."""
        return self.attention.curvature(self.edges)


class ImageDynamics(NamedTuple):
    r"""How the tokens of some images move: an energy block, who attends to
    whom, and which tokens stay where they are.

    States are :math:`[M, C]`, the tokens of one image after those of another.
    """

    block: EnergyTransformerConv
    tokens: Union[AllTokens, EdgeTokens]
    fixed: OptTensor = None  # [M]

    def field(self, g: Tensor) -> Tensor:
        r""":math:`-\partial E / \partial g`, :math:`[M, C]`."""
        return self.tokens.descent(g) + self.block.memory(g)

    def energy(self, g: Tensor) -> Tensor:
        r"""Energy of every token, :math:`[M]`."""
        memories = self.block.memory.energy(g, reduction='node')
        return self.tokens.energy(g) + memories

    def step_rule(self, x: Tensor):
        r"""The step size of the block, zero for fixed tokens."""
        step = self.block.step
        if step is not None and self.fixed is None:
            return step()
        curvature = self.tokens.curvature(len(x)) if step is None else None

        def rule(x: Tensor, force: Tensor) -> Tensor:
            if curvature is None:
                alpha = torch.as_tensor(step(), dtype=x.dtype, device=x.device)
            else:
                norm = self.block.norm
                alpha = safe_step_size(
                    norm.sigma(x), norm.gamma, curvature, force
                )
            if self.fixed is not None:
                alpha = alpha.expand(len(x)).masked_fill(self.fixed, 0.0)
            return alpha

        return rule

    def run(
        self,
        x: Tensor,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        trace: bool = False,
    ) -> Tuple[Tensor, Optional[EnergyTrace]]:
        r"""All T steps.

        Args:
            x (Tensor): First states :math:`[M, C]`.
            batch (LongTensor, optional): Image of every token, for the trace.
            batch_size (int, optional): Number of images.
            trace (bool, optional): Whether to keep a trace.
                (default: :obj:`False`)
        """
        block = self.block
        return descend(
            x,
            block.norm,
            self.field,
            block.num_steps,
            self.step_rule(x),
            energy=self.energy if trace else None,
            batch=batch,
            batch_size=batch_size,
            noise_std=block.noise_std if block.training else 0.0,
            checkpoint=block.checkpoint,
        )


def batched_edges(
    edge_index: Tensor,
    batch_size: int,
    num_nodes: int,
    known: Optional[AttentionEdges] = None,
) -> AttentionEdges:
    r"""The edges of B equal graphs of N nodes, sorted.

    Args:
        edge_index (LongTensor): Edges of one graph, :math:`[2, E]`.
        batch_size (int): Number of graphs B.
        num_nodes (int): Nodes N of a graph.
        known (AttentionEdges, optional): Edges of an earlier call, which are
            returned if they are of as many graphs on the same device.
    """
    total = batch_size * num_nodes
    if known is not None and known.cache is not None:
        same_device = known.cache.device == edge_index.device
        if known.num_nodes == total and same_device:
            return known
    shift = torch.arange(batch_size, device=edge_index.device) * num_nodes
    edges = (edge_index.unsqueeze(1) + shift.view(1, -1, 1)).flatten(1)
    cache = GraphCache.from_edge_index(edges, total)
    return AttentionEdges(total, cache, None, None)
