"""Fits the networks of a detector on one graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.detect.graphs import edge_keywords
from torch_energy_graph.detect.inputs import Encoding, NodeInputs
from torch_energy_graph.detect.members import (
    Checkpoint,
    fingerprint,
    fit_network,
)
from torch_energy_graph.detect.memory import available_bytes, parts_that_fit
from torch_energy_graph.detect.scorer import (
    NetworkShape,
    Scorer,
    scaled_edges,
)
from torch_energy_graph.detect.threshold import target_to_dict
from torch_energy_graph.train import FitResult
from torch_energy_graph.transforms import Standardize

if TYPE_CHECKING:
    from torch_energy_graph.detect.detector import EnergyFraudDetector

__all__ = ['Fitted', 'fit_ensemble']

# they change nothing that is trained
_LATER = ('calibration', 'threshold', 'device', 'max_memory_gib', 'num_parts')


@dataclass(frozen=True)
class Fitted:
    """A scorer, and what was found on the way."""

    scorer: Scorer
    scores: NDArray[np.float64]  # uncalibrated, [N]
    history: list[dict[str, Any]]
    num_parts: int


def fit_ensemble(
    params: 'EnergyFraudDetector',
    graph: Data,
    train: Tensor,
    val: Tensor,
    num_relations: int | None,
    folder: Path | None,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Fitted:
    """Fit encodings and networks.

    Args:
        params (EnergyFraudDetector): Holds the settings.
        graph (Data): With labels -1 outside of the masks.
        train (Tensor): Training nodes, bool :math:`[N]`.
        val (Tensor): Validation nodes, bool :math:`[N]`.
        num_relations (int, optional): Number of relations; those that occur
            if :obj:`None`.
        folder (Path, optional): For finished networks.
        progress (callable, optional): Called with every record of the
            history. (default: :obj:`None`)
    """
    _check(params)
    graph = graph.to(params.device)
    inputs = NodeInputs(params.hops, params.encoding, params.bins)
    prepared = inputs.learn(graph, train)(graph)
    edge_scaler = None
    if 'edge_attr' in graph:
        edge_scaler = _learned_edges(graph, train)
        prepared.edge_attr = scaled_edges(edge_scaler, graph.edge_attr)
    shape = _shape(params, prepared, num_relations)
    num_parts = _num_parts(params, prepared, shape)
    settings = {
        key: target_to_dict(value) if key == 'threshold' else value
        for key, value in params.get_params().items()
        if key not in _LATER
    }
    masks = Data(**dict(prepared), train=train, val=val)
    task = fingerprint(masks, {**settings, 'parts': num_parts})
    checkpoint = Checkpoint(folder, task)
    members, results = [], []
    for i in range(params.ensemble):
        # members of two seeds never share one
        seed = params.random_state * params.ensemble + i
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            member = shape.build().to(params.device)
        result = checkpoint.restore(i, member)
        if result is None:
            result = fit_network(
                member,
                prepared,
                train,
                val,
                edge_keywords,
                params,
                num_parts if num_parts > 1 else None,
                seed,
                progress=_numbered(i, progress),
            )
            checkpoint.add(member, result)
        members.append(member)
        results.append(result)
    num_features = graph.x.size(1)
    return Fitted(
        Scorer(
            num_features, inputs, edge_scaler, shape, members, params.device
        ),
        np.mean([r.scores for r in results], axis=0),
        _history(results),
        num_parts,
    )


def _check(params: 'EnergyFraudDetector') -> None:
    if params.ensemble < 1 or params.hops < 0:
        raise ValueError(
            f"expected 'ensemble' >= 1 and 'hops' >= 0 (got "
            f'{params.ensemble} and {params.hops})'
        )
    if params.encoding not in get_args(Encoding):
        raise ValueError(
            f"expected 'encoding' as one of {', '.join(get_args(Encoding))} "
            f'(got {params.encoding!r})'
        )
    parts = params.num_parts
    if parts != 'auto' and (not isinstance(parts, int) or parts < 1):
        raise ValueError(
            f"expected 'num_parts' as 'auto' or a number >= 1 (got {parts!r})"
        )


def _learned_edges(graph: Data, train: Tensor) -> Standardize:
    """Scaling of the edges that touch training nodes, or of all."""
    mask = train.to(graph.edge_index.device)[graph.edge_index].any(dim=0)
    if not bool(mask.any()):
        mask = torch.ones_like(mask)
    return Standardize().fit(Data(x=graph.edge_attr), mask)


def _shape(
    params: 'EnergyFraudDetector', prepared: Data, relations: int | None
) -> NetworkShape:
    if relations is None and 'edge_type' in prepared:
        relations = int(prepared.edge_type.max()) + 1
    dim = prepared.edge_attr.size(1) if 'edge_attr' in prepared else None
    return NetworkShape(
        in_channels=prepared.x.size(1),
        hidden_channels=params.hidden_channels,
        heads=params.heads,
        num_memories=params.num_memories,
        num_steps=params.num_steps,
        step_size=params.step_size,
        beta=params.beta,
        dropout=params.dropout,
        embedding_layers=params.embedding_layers,
        num_relations=relations,
        edge_dim=dim,
    )


def _num_parts(
    params: 'EnergyFraudDetector', prepared: Data, shape: NetworkShape
) -> int:
    if params.num_parts != 'auto':
        return params.num_parts
    limit = params.max_memory_gib
    if limit is None:
        free = available_bytes(torch.device(params.device))
        limit = None if free is None else free / 2
    else:
        limit = limit * 2**30
    return parts_that_fit(
        prepared.x.size(0),
        prepared.edge_index.size(1),
        limit,
        num_features=shape.in_channels,
        hidden_channels=shape.hidden_channels,
        embedding_layers=shape.embedding_layers,
        heads=shape.heads,
        num_steps=shape.num_steps,
        num_memories=shape.num_memories,
        num_relations=shape.num_relations,
    )


def _numbered(
    i: int, progress: Callable[[dict[str, Any]], None] | None
) -> Callable[[dict[str, Any]], None] | None:
    """Add the number of a member to the records of its training."""
    if progress is None:
        return None
    return lambda record: progress({'member': i, **record})


def _history(results: list[FitResult]) -> list[dict[str, Any]]:
    rows: list[Mapping[str, Any]] = [
        {'member': i, **record}
        for i, result in enumerate(results)
        for record in result.history
    ]
    return [dict(row) for row in rows]
