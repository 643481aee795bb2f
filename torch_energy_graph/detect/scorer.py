"""What a fitted detector scores graphs with."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.detect.calibration import (
    Calibration,
    NoCalibration,
    calibration_from_dict,
)
from torch_energy_graph.detect.graphs import edge_keywords
from torch_energy_graph.detect.inputs import NodeInputs
from torch_energy_graph.detect.members import members_state, state_of_member
from torch_energy_graph.nn.models import EnergyAnomalyDetector
from torch_energy_graph.transforms import Standardize

__all__ = ['NetworkShape', 'Scorer', 'scaled_edges']

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NetworkShape:
    """Arguments of the networks."""

    in_channels: int
    hidden_channels: int
    heads: int
    num_memories: int | None
    num_steps: int
    step_size: float | str
    beta: float | str | None
    dropout: float
    embedding_layers: int
    num_relations: int | None
    edge_dim: int | None

    def build(self) -> EnergyAnomalyDetector:
        """A new network, from torch's global random state."""
        return EnergyAnomalyDetector(**asdict(self))


class Scorer:
    """An ensemble behind its encodings, and a calibration.

    Args:
        num_features (int): Features :math:`F` of the graphs.
        inputs (NodeInputs): Fitted encoding of the nodes.
        edge_scaler (Standardize, optional): Fitted scaling of edge features.
        shape (NetworkShape): Of every member.
        members (list): Networks in eval mode.
        device (str): Where they are.
    """

    def __init__(
        self,
        num_features: int,
        inputs: NodeInputs,
        edge_scaler: Standardize | None,
        shape: NetworkShape,
        members: list[EnergyAnomalyDetector],
        device: str,
    ) -> None:
        self.num_features = num_features
        self.inputs = inputs
        self.edge_scaler = edge_scaler
        self.shape = shape
        self.members = members
        self.device = device
        self.calibration: Calibration = NoCalibration()

    def prepare(self, graph: Data) -> Data:
        """Encode a graph; ValueError if it is not of the fitted kind."""
        self._check(graph)
        graph = self.inputs(graph.to(self.device))
        if self.edge_scaler is not None:
            graph.edge_attr = scaled_edges(self.edge_scaler, graph.edge_attr)
        return graph

    @torch.no_grad()
    def member_probabilities(self, prepared: Data) -> Floats:
        """Uncalibrated probabilities of every member, :math:`[M, N]`."""
        keywords = edge_keywords(prepared)
        return np.stack(
            [
                member(prepared.x, **keywords).double().sigmoid().cpu().numpy()
                for member in self.members
            ]
        )

    @torch.no_grad()
    def energies(self, prepared: Data) -> Floats:
        """Mean energy of every node at the end of the descent, [N]."""
        keywords = edge_keywords(prepared)
        rows = []
        for member in self.members:
            state = member.block(member.embed(prepared.x), **keywords)
            energy = member.block.energy(state, **keywords, reduction='node')
            rows.append(energy.double().cpu().numpy())
        return np.mean(rows, axis=0)

    def tensors(self) -> dict[str, Tensor]:
        """The weights of all members."""
        return members_state(list(self.members))

    def state(self) -> dict[str, Any]:
        """All but the weights, ready for JSON."""
        edges = self.edge_scaler
        return {
            'num_features': self.num_features,
            'inputs': self.inputs.state(),
            'edges': None
            if edges is None
            else {
                'mean': edges.scaler_.mean_.tolist(),
                'scale': edges.scaler_.scale_.tolist(),
            },
            'shape': asdict(self.shape),
            'num_members': len(self.members),
            'calibration': self.calibration.to_dict(),
        }

    @classmethod
    def restore(
        cls,
        values: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        inputs: NodeInputs,
        device: str,
    ) -> 'Scorer':
        """What :meth:`state` and :meth:`tensors` gave."""
        names = {f.name for f in fields(NetworkShape)}
        if names != values['shape'].keys():
            raise ValueError('its networks have other arguments')
        shape = NetworkShape(**values['shape'])
        members = []
        # the weights drawn here are replaced
        with torch.random.fork_rng([]):
            for i in range(values['num_members']):
                member = shape.build()
                member.load_state_dict(state_of_member(tensors, i))
                members.append(member.to(device).eval())
        scorer = cls(
            values['num_features'],
            inputs.restore(values['inputs'], values['num_features']),
            _edge_scaler(values['edges']),
            shape,
            members,
            device,
        )
        scorer.calibration = calibration_from_dict(values['calibration'])
        return scorer

    def _check(self, graph: Data) -> None:
        if graph.x.size(1) != self.num_features:
            raise ValueError(
                f"'EnergyFraudDetector' was fitted on {self.num_features} "
                f'features (got {graph.x.size(1)})'
            )
        for name, wanted in (
            ('edge_type', self.shape.num_relations),
            ('edge_attr', self.shape.edge_dim),
        ):
            if (wanted is None) != (name not in graph):
                has = 'with' if wanted is not None else 'without'
                raise ValueError(
                    f"'EnergyFraudDetector' was fitted {has} '{name}'; give "
                    f'a graph {has} it'
                )
        relations, dim = self.shape.num_relations, self.shape.edge_dim
        if dim is not None and graph.edge_attr.size(1) != dim:
            raise ValueError(
                f"'EnergyFraudDetector' was fitted on {dim} edge features "
                f'(got {graph.edge_attr.size(1)})'
            )
        if relations is not None and graph.edge_type.numel():
            low, high = map(int, torch.aminmax(graph.edge_type))
            if low < 0 or high >= relations:
                raise ValueError(
                    f"'EnergyFraudDetector' was fitted on relations 0 to "
                    f'{relations - 1} (got {low} to {high}); leave out the '
                    f'edges of others'
                )


def scaled_edges(scaler: Standardize, attr: Tensor) -> Tensor:
    """Edge features with mean 0 and variance 1 on the fitted edges."""
    if not attr.size(0):
        return attr
    out: Tensor = scaler(Data(x=attr)).x
    return out


def _edge_scaler(values: Mapping[str, Any] | None) -> Standardize | None:
    if values is None:
        return None
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_ = (
        np.array(values[key], dtype=np.float64) for key in ('mean', 'scale')
    )
    scaler.var_ = scaler.scale_**2
    standardize = Standardize()
    standardize.scaler_ = scaler
    scaler.n_features_in_ = standardize.num_features_ = len(scaler.mean_)
    return standardize
