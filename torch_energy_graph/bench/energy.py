"""The Energy Transformer as an entry of the benchmark."""

from typing import Literal

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.baselines import prediction
from torch_energy_graph.bench.features import standardised
from torch_energy_graph.bench.protocol import Split
from torch_energy_graph.bench.registry import Prediction, register_model
from torch_energy_graph.nn.models import EnergyAnomalyDetector
from torch_energy_graph.ops import GraphCache
from torch_energy_graph.train import fit, seed_everything

__all__ = ['et']


@register_model('et')
def et(
    data: Data,
    split: Split,
    seed: int,
    *,
    hidden_channels: int = 64,
    heads: int = 4,
    num_steps: int = 4,
    step_size: float | Literal['auto', 'learn'] = 0.1,
    dropout: float = 0.1,
    checkpoint: bool = False,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    clip_norm: float | None = 1.0,
    epochs: int = 200,
    patience: int | None = 50,
    eval_every: int = 1,
    num_parts: int | None = None,
) -> Prediction:
    """``EnergyAnomalyDetector`` on standardised features.

    With ``num_parts`` it trains on random disjoint parts; scores are always
    those of the full graph, whose edges are sorted once.
    """
    data = standardised(data, split)
    graph = GraphCache.from_edge_index(data.edge_index, data.num_nodes)
    seed_everything(seed)
    model = EnergyAnomalyDetector(
        data.num_features,
        hidden_channels=hidden_channels,
        heads=heads,
        num_steps=num_steps,
        step_size=step_size,
        dropout=dropout,
        checkpoint=checkpoint,
    )

    def logits(model: torch.nn.Module, part: Data) -> Tensor:
        edges = part.edge_index if 'n_id' in part else graph
        out: Tensor = model(part.x, edges)
        return out

    result = fit(
        model,
        data,
        split.train,
        split.val,
        epochs=epochs,
        lr=lr,
        weight_decay=weight_decay,
        patience=patience,
        eval_every=eval_every,
        clip_norm=clip_norm,
        num_parts=num_parts,
        predict=logits,
        seed=seed,
    )
    with torch.no_grad():
        _, trace = model(data.x, graph, return_trace=True)
    per_node = trace.energy / data.num_nodes  # [T + 1]
    return prediction(
        result,
        energy_start=float(per_node[0]),
        energy_end=float(per_node[-1]),
        energy_monotone=trace.is_monotone(),
    )
