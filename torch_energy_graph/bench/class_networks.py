"""How every node classifier of the benchmark is fitted, by one recipe."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import to_undirected

from torch_energy_graph.bench.coerce import did_you_mean
from torch_energy_graph.bench.goal import CLASSES
from torch_energy_graph.bench.registry import (
    FitPredict,
    Prediction,
    register_model,
)
from torch_energy_graph.bench.sparse_features import network_input
from torch_energy_graph.bench.split import Split
from torch_energy_graph.train import (
    ClassifierTrainer,
    Objective,
    TrainOptions,
    seed_everything,
)
from torch_energy_graph.transforms import Standardize

__all__ = [
    'ClassNetwork',
    'ClassParams',
    'class_network',
    'get_class_network',
    'with_class_defaults',
]


@dataclass(frozen=True)
class ClassParams:
    """Parameters of all node classifiers.

    Args:
        hidden_channels (int): Width.
        num_layers (int): Number of layers.
        dropout (float): Dropout.
        lr (float): Learning rate of Adam.
        weight_decay (float): L2 penalty.
        epochs (int): Upper bound of the number of epochs.
        patience (int, optional): Evaluations without a better validation
            accuracy after which to stop.
        eval_every (int): Epochs between two evaluations.
        clip_norm (float, optional): Upper bound of the gradient norm.
        num_parts (int, optional): Train on that many random parts.
        features (str): 'rows' makes rows sum to 1 (PyG's
            ``NormalizeFeatures``), 'standard' scales columns by the training
            nodes, 'raw' leaves them.
        undirected (bool): Whether edges are read in both directions.
    """

    hidden_channels: int = 64
    num_layers: int = 2
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 500
    patience: int | None = 100
    eval_every: int = 1
    clip_norm: float | None = None
    num_parts: int | None = None
    features: Literal['raw', 'rows', 'standard'] = 'rows'
    undirected: bool = True


Build: TypeAlias = Callable[[Data, int, Any], torch.nn.Module]
Edges: TypeAlias = Callable[[Data, Any], dict[str, Any]]


@dataclass(frozen=True)
class ClassNetwork:
    """A classifier by name: its parameters, how it is built and called.

    Args:
        name (str): Name of the model.
        params (type): Dataclass of its parameters.
        build (callable): ``build(data, classes, params)``.
        edges (callable): ``edges(data, params)`` gives the keyword arguments
            of the network beside the features; called once for a graph.
    """

    name: str
    params: type[ClassParams]
    build: Build
    edges: Edges

    def prepare(self, data: Data, split: Split, params: ClassParams) -> Data:
        """Return a loaded graph with its features scaled, in both directions.

        Args:
            data (Data): The graph as it was loaded.
            split (Split): Whose training nodes scale the columns.
            params (ClassParams): Parameters of the network.
        """
        data = copy.copy(data)
        if params.features == 'rows':
            data = NormalizeFeatures()(data)
        elif params.features == 'standard':
            data = Standardize().fit(data, split.train)(data)
        if params.undirected:
            data.edge_index = to_undirected(
                data.edge_index, num_nodes=data.num_nodes
            )
        return data

    def inputs(self, data: Data, params: ClassParams) -> dict[str, Any]:
        """Return what the network is called with, of a prepared graph."""
        return {'x': network_input(data.x), **self.edges(data, params)}

    def trainer(
        self,
        data: Data,
        split: Split,
        seed: int,
        params: ClassParams,
        objective: Objective | None = None,
    ) -> ClassifierTrainer:
        """Draw a network and return what trains it.

        Args:
            data (Data): The graph as it was loaded.
            split (Split): With a number of classes.
            seed (int): Seed of weights, dropout and parts.
            params (ClassParams): Parameters of the network.
            objective (callable, optional): What is minimised, see
                :class:`~torch_energy_graph.train.ClassifierTrainer`.
                (default: :obj:`None`)
        """
        if split.classes is None:
            raise ValueError(
                f"'{self.name}' tells classes and the split tells anomalies; "
                f"use a protocol for classes, such as 'public'"
            )
        data = self.prepare(data, split, params)
        seed_everything(seed)
        model = self.build(data, split.classes, params).to(data.x.device)
        whole = self.inputs(data, params)

        def predict(model: torch.nn.Module, part: Data) -> Tensor:
            keywords = whole
            if 'n_id' in part:
                keywords = {'x': part.x, **self.edges(part, params)}
            elif part.x.requires_grad:  # sparse features have no gradient
                keywords = {**whole, 'x': part.x}
            out: Tensor = model(**keywords)
            return out

        names = {field.name for field in fields(TrainOptions)}
        names -= {'seed', 'select'}
        options = {name: getattr(params, name) for name in names}
        return ClassifierTrainer(
            model,
            data,
            split.train,
            split.val,
            TrainOptions(**options, seed=seed),
            predict,
            objective,
        )

    def __call__(
        self, data: Data, split: Split, seed: int, **values: Any
    ) -> Prediction:
        """Fit on a graph, as an entry of the benchmark."""
        trainer = self.trainer(data, split, seed, self.params(**values))
        result = trainer.fit()
        info = {
            'best_epoch': result.best_epoch,
            'last_epoch': trainer.epoch,
            'num_parameters': result.num_parameters,
        }
        return Prediction(result.scores, info)


_NETWORKS: dict[str, ClassNetwork] = {}


def class_network(
    name: str, params: type[ClassParams], edges: Edges
) -> Callable[[Build], FitPredict]:
    """Register a classifier by a function that builds it.

    Args:
        name (str): See :class:`ClassNetwork`.
        params (type): See :class:`ClassNetwork`.
        edges (callable): See :class:`ClassNetwork`.
    """

    def decorate(build: Build) -> FitPredict:
        return _register(ClassNetwork(name, params, build, edges))

    return decorate


def with_class_defaults(
    base: str, name: str, params: type[ClassParams]
) -> FitPredict:
    """Register a network again, with parameters of other defaults."""
    network = get_class_network(base)
    return _register(ClassNetwork(name, params, network.build, network.edges))


def get_class_network(name: str) -> ClassNetwork:
    """Return a registered classifier."""
    if name not in _NETWORKS:
        raise ValueError(
            f"unknown classifier '{name}'; {did_you_mean(name, _NETWORKS)}"
        )
    return _NETWORKS[name]


def _register(network: ClassNetwork) -> FitPredict:
    _NETWORKS[network.name] = network

    def fit_predict(
        data: Data, split: Split, seed: int, **values: Any
    ) -> Prediction:
        return network(data, split, seed, **values)

    fit_predict.__name__ = network.name
    fit_predict.__doc__ = network.build.__doc__
    fit_predict.__signature__ = _signature(network.params)  # type: ignore[attr-defined]
    return register_model(network.name, CLASSES)(fit_predict)


def _signature(params: type[ClassParams]) -> inspect.Signature:
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
