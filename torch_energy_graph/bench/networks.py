"""How every network of the benchmark is fitted, and its parameters."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.features import Encoding, Inputs, Labels
from torch_energy_graph.bench.registry import (
    FitPredict,
    Prediction,
    register_model,
)
from torch_energy_graph.bench.split import Split
from torch_energy_graph.detect.members import fit_network
from torch_energy_graph.nn.encoding import PeriodicEncoding
from torch_energy_graph.train import FitResult, seed_everything

__all__ = ['NetworkParams', 'TrainParams', 'network']


@dataclass(frozen=True)
class TrainParams:
    """Parameters of all networks.

    Args:
        hidden_channels (int): Width.
        dropout (float): Dropout.
        lr (float): Learning rate of Adam.
        weight_decay (float): L2 penalty.
        balance (float): Anomalies weigh (benign / anomalous training
            nodes) to this power: 1 balances the classes, 0 leaves them.
        clip_norm (float, optional): Upper bound of the gradient norm.
        epochs (int): Upper bound of the number of epochs.
        patience (int, optional): Evaluations without a better validation
            AUPRC after which to stop.
        eval_every (int): Epochs between two evaluations.
        num_parts (int, optional): Train on that many random parts.
        ensemble (int): Number of networks, with seeds of their own, whose
            probabilities are averaged.
        hops (int): Number of neighbour means beside the features.
        encoding (str): See :class:`Inputs`; 'periodic' scales as 'normal'
            does and learns a :class:`PeriodicEncoding`.
        bins (int): Bins of 'piecewise', or channels of 'periodic', for every
            feature.
    """

    hidden_channels: int = 64
    dropout: float = 0.1
    lr: float = 0.01
    weight_decay: float = 0.0
    balance: float = 1.0
    clip_norm: float | None = None
    epochs: int = 200
    patience: int | None = 50
    eval_every: int = 1
    num_parts: int | None = None
    ensemble: int = 1
    hops: int = 0
    encoding: Encoding | Literal['periodic'] = 'standard'
    bins: int = 16


@dataclass(frozen=True)
class NetworkParams(TrainParams):
    """Parameters of networks with layers."""

    num_layers: int = 2


Edges: TypeAlias = Callable[[Data, Any], dict[str, Any]]
Build: TypeAlias = Callable[[Data, Any], torch.nn.Module]
Describe: TypeAlias = Callable[
    [torch.nn.Module, Data, dict[str, Any]], dict[str, Any]
]


def network(
    name: str,
    params: type[TrainParams],
    edges: Edges,
    describe: Describe | None = None,
) -> Callable[[Build], FitPredict]:
    """Register a network by a function that builds it.

    Args:
        name (str): Name of the model.
        params (type): Dataclass of its parameters.
        edges (callable): ``edges(data, params)`` gives the keyword arguments
            of the network beside the features; called once for a graph.
        describe (callable, optional): ``describe(network, data, keywords)``
            gives what to record of a fitted network. (default: :obj:`None`)
    """

    def decorate(build: Build) -> FitPredict:
        def fit_predict(
            data: Data, split: Split, seed: int, **values: Any
        ) -> Prediction:
            fitted = _Fitted(build, edges, params(**values), data, split, seed)
            info = fitted.info()
            if describe is not None:
                info |= describe(
                    fitted.members[0], fitted.data, fitted.keywords
                )
            later = None if fitted.inputs.labels else fitted.predict
            return Prediction(fitted.scores, info, later)

        fit_predict.__name__ = build.__name__
        fit_predict.__doc__ = build.__doc__
        fit_predict.__signature__ = _signature(params)  # type: ignore[attr-defined]
        return register_model(name)(fit_predict)

    return decorate


class _Fitted:
    """Networks fitted on a graph, which can score others."""

    def __init__(
        self,
        build: Build,
        edges: Edges,
        params: TrainParams,
        data: Data,
        split: Split,
        seed: int,
    ) -> None:
        if params.ensemble < 1:
            raise ValueError(
                f"expected 'ensemble' >= 1 network (got {params.ensemble})"
            )
        self.params, self.edges = params, edges
        encoding = params.encoding
        labels: Labels | None = None
        if getattr(params, 'labels', False):
            # along edges, a label would come back to its own node
            labels = 'beside' if edges(data, params) else 'features'
        self.inputs = Inputs(
            params.hops,
            'normal' if encoding == 'periodic' else encoding,
            params.bins,
            labels,
        ).fit(data, split)
        self.data = self.inputs(data)
        self.members: list[torch.nn.Module] = []
        self.results: list[FitResult] = []
        self.keywords = edges(self.data, params)
        for i in range(params.ensemble):
            # members of two seeds never share one
            self._fit(build, split, seed * params.ensemble + i)
        self.scores = np.mean([r.scores for r in self.results], axis=0)

    def _fit(self, build: Build, split: Split, seed: int) -> None:
        params = self.params
        seed_everything(seed)
        model = self._build(build)
        result = fit_network(
            model,
            self.data,
            split.train,
            split.val,
            lambda part: self.edges(part, params),
            params,
            params.num_parts,
            seed,
            self.keywords,
        )
        self.members.append(model)
        self.results.append(result)

    def _build(self, build: Build) -> torch.nn.Module:
        if self.params.encoding != 'periodic':
            return build(self.data, self.params).to(self.data.x.device)
        encoding = PeriodicEncoding(self.data.num_features, self.params.bins)
        # the builder reads nothing but the width of the features
        wide = copy.copy(self.data)
        wide.x = self.data.x.new_empty(
            (0, self.data.num_features * self.params.bins)
        )
        model = Encoded(encoding, build(wide, self.params))
        return model.to(self.data.x.device)

    def info(self) -> dict[str, Any]:
        """Return what is recorded of the fits."""
        epochs = [result.best_epoch for result in self.results]
        info = {
            'best_epoch': epochs[0],
            'last_epoch': self.results[0].history[-1]['epoch'],
            'num_parameters': sum(r.num_parameters for r in self.results),
        }
        return info | ({'best_epochs': epochs} if len(epochs) > 1 else {})

    @torch.no_grad()
    def predict(self, data: Data) -> NDArray[np.float64]:
        """Return the probabilities of the nodes of any graph."""
        data = self.inputs(data)
        keywords = self.edges(data, self.params)
        scores = [
            model(data.x, **keywords).view(-1).double().sigmoid().cpu().numpy()
            for model in self.members
        ]
        mean: NDArray[np.float64] = np.mean(scores, axis=0)
        return mean


class Encoded(torch.nn.Module):
    """A network behind a learned encoding of its features."""

    def __init__(
        self, encoding: torch.nn.Module, network: torch.nn.Module
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.network = network

    def forward(self, x: Tensor, **kwargs: Any) -> Any:
        """Encode, then call the network."""
        return self.network(self.encoding(x), **kwargs)


def _signature(params: type[TrainParams]) -> inspect.Signature:
    """Return ``(data, split, seed, *, ...)`` with the fields as keywords."""
    kinds = inspect.Parameter
    parts = [
        kinds(name, kinds.POSITIONAL_OR_KEYWORD)
        for name in ('data', 'split', 'seed')
    ]
    parts += [
        kinds(f.name, kinds.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(params)
    ]
    return inspect.Signature(parts)
