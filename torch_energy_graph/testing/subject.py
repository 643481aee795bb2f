"""What is under test: a layer factory, its inputs, and the list of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torch_geometric.data import Data

from .errors import require
from .graphs import random_graph

__all__ = [
    'CHECKS',
    'IN_CHANNELS',
    'OUT_CHANNELS',
    'PROFILES',
    'Call',
    'EdgeInput',
    'Subject',
    'conv_check',
    'seeded',
]

#: Makes an edge input from the number of edges and a generator.
EdgeInput = Callable[[int, torch.Generator], Tensor]

IN_CHANNELS, OUT_CHANNELS = 8, 12
PROFILES = ('conv', 'field', 'node')


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Seeds the global generator and gives its state back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True)
class Call:
    """The arguments of one forward call.

    Args:
        x (Tensor): Node features.
        edge_index (Adj, optional): Edges; :obj:`None` for layers without.
        edge (dict): Edge inputs by keyword.
    """

    x: Tensor
    edge_index: Any = None
    edge: dict[str, Tensor] = field(default_factory=dict)

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        return (
            (self.x,) if self.edge_index is None else (self.x, self.edge_index)
        )

    def on(self, layer: Callable[..., Any]) -> Tensor:
        """Output of the layer, which must be one tensor."""
        out = layer(*self.args, **self.edge)
        require(
            isinstance(out, Tensor),
            f'expected one tensor as output (got {type(out).__name__})',
        )
        return out

    def to(self, dtype: torch.dtype) -> Call:
        """The same call with floating-point inputs in another type."""
        edge = {
            key: value.to(dtype) if value.is_floating_point() else value
            for key, value in self.edge.items()
        }
        return Call(self.x.to(dtype), self.edge_index, edge)


@dataclass(frozen=True)
class Subject:
    """A layer factory under test.

    Args:
        factory (callable): ``(in_channels, out_channels)`` for the profile
            ``conv``, ``(channels)`` for the others.
        profile (str): One of :obj:`PROFILES`.
        edge_inputs (dict): Makers of edge inputs by keyword.
    """

    factory: Callable[..., Module]
    profile: str
    edge_inputs: Mapping[str, EdgeInput]

    @property
    def out_channels(self) -> int:
        """Number of output channels that the layer should have."""
        return OUT_CHANNELS if self.profile == 'conv' else IN_CHANNELS

    def layer(self, in_channels: int = IN_CHANNELS, seed: int = 0) -> Module:
        """A new layer in eval mode."""
        sizes = [in_channels]
        if self.profile == 'conv':
            sizes.append(self.out_channels)
        with seeded(seed):
            return self.factory(*sizes).eval()

    def call(self, graph: Data | None = None, seed: int = 0) -> Call:
        """Features and edge inputs on a graph.

        Args:
            graph (Data, optional): The graph. (default: a random one without
                parallel edges and self-loops)
            seed (int, optional): Seed of the features. (default: :obj:`0`)
        """
        if graph is None:
            graph = random_graph(
                12, 40, seed, multi_edges=False, self_loops=False
            )
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(graph.num_nodes, IN_CHANNELS, generator=generator)
        if self.profile == 'node':
            return Call(x)
        edge = {
            key: make(graph.num_edges, generator)
            for key, make in self.edge_inputs.items()
        }
        return Call(x, graph.edge_index, edge)


#: Check by name: profiles it belongs to, and the function.
CHECKS: dict[str, tuple[tuple[str, ...], Callable[[Subject], None]]] = {}


def conv_check(
    *profiles: str,
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Registers a function under its own name for these profiles."""

    def register(
        function: Callable[[Subject], None],
    ) -> Callable[[Subject], None]:
        CHECKS[function.__name__] = (profiles, function)
        return function

    return register
