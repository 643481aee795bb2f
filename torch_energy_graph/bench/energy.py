"""The Energy Transformer as an entry of the benchmark."""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from torch_geometric.data import Data

from torch_energy_graph.bench.networks import TrainParams, network
from torch_energy_graph.bench.registry import register_model, with_defaults
from torch_energy_graph.nn.models import EnergyAnomalyDetector
from torch_energy_graph.ops import GraphCache

__all__ = ['et', 'et_labels']


@dataclass(frozen=True)
class ETParams(TrainParams):
    """Parameters of ``et``.

    Args:
        heads (int): Heads of the attention.
        num_memories (int, optional): Memories, 4 times the width if None.
        num_steps (int): Steps down the energy.
        step_size (float or str): A number, 'learn' or 'auto' (certified).
        beta (float or str, optional): Inverse temperature or 'learn'.
        embedding_layers (int): Layers of the embedding before the block.
        relations (bool): Whether every relation of the graph has its own
            attention, if it has several.
        labels (bool): Let the head read the known labels of a node's
            neighbours.
        checkpoint (bool): Recompute the steps in the backward pass.
    """

    clip_norm: float | None = 1.0
    heads: int = 4
    num_memories: int | None = None
    num_steps: int = 4
    step_size: float | Literal['auto', 'learn'] = 0.1
    beta: float | Literal['learn'] | None = None
    embedding_layers: int = 1
    relations: bool = True
    labels: bool = False
    checkpoint: bool = False


def _edges(data: Data, p: ETParams) -> dict[str, Any]:
    """Sort the edges once; with relations, the layer sorts them."""
    known = {'side': data.known} if 'known' in data else {}
    if p.relations and 'edge_type' in data:
        edges = {'edge_index': data.edge_index, 'edge_type': data.edge_type}
        return edges | known
    cache = GraphCache.from_edge_index(data.edge_index, data.num_nodes)
    return {'edge_index': cache} | known


@torch.no_grad()
def _trace(
    model: torch.nn.Module, data: Data, edges: dict[str, Any]
) -> dict[str, Any]:
    _, trace = model(data.x, **edges, return_trace=True)
    per_node = trace.energy / data.num_nodes  # [T + 1]
    return {
        'energy_start': float(per_node[0]),
        'energy_end': float(per_node[-1]),
        'energy_monotone': trace.is_monotone(),
    }


@network('et', ETParams, _edges, _trace)
def et(data: Data, p: ETParams) -> torch.nn.Module:
    """``EnergyAnomalyDetector``, full batch or on random parts."""
    relations = None
    if p.relations and 'edge_type' in data:
        relations = int(data.edge_type.max()) + 1
    return EnergyAnomalyDetector(
        data.num_features,
        hidden_channels=p.hidden_channels,
        heads=p.heads,
        num_memories=p.num_memories,
        num_steps=p.num_steps,
        step_size=p.step_size,
        dropout=p.dropout,
        embedding_layers=p.embedding_layers,
        checkpoint=p.checkpoint,
        beta=p.beta,
        num_relations=relations,
        side_channels=data.known.size(-1) if p.labels else None,
    )


et_labels = register_model('et_labels')(
    with_defaults(et, hops=2, encoding='piecewise', labels=True)
)
