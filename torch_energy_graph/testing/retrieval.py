r"""Does a layer minimise a retrieval energy before it reads its values?

A layer with :obj:`energy_contract = 'retrieval'` has ``steps``, ``energy``
and ``association``, which takes the arguments of ``forward`` and returns the
first ``state``, and the methods ``step`` and ``energy`` of a state. Each step
must be :math:`f(\xi) = \xi - \partial E / \partial \xi`, and lower E by
:math:`\frac12 \lVert f(\xi) - \xi \rVert^2` at least.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_geometric.data import Data

from .errors import require, require_close
from .graphs import disjoint_union
from .subject import EdgeInput

__all__ = ['check_retrieval']

_NUM_STEPS = 4  # whose energies are compared


def check_retrieval(
    layer: Any,
    graphs: Mapping[str, Data],
    edge_inputs: Mapping[str, EdgeInput],
    channels: int,
    seed: int,
    rtol: float,
) -> None:
    r"""Checks the contract ``'retrieval'`` of a layer in float64.

    It may take ``(x, edge_index)``, ``(x, index)`` of sets, ``patterns``, or
    nodes alone, by the names of its arguments.

    Args:
        layer (Module): The layer, in eval mode and float64.
        graphs (dict): Graphs by name; as sets, those with nodes.
        edge_inputs (dict): Further inputs by keyword.
        channels (int): Number of input channels.
        seed (int): Seed of features.
        rtol (float): Allowed deviation over the largest value.

    Raises:
        ContractError: Names the graph, the quantity and the deviation.
    """
    cases = []
    for number, (name, graph) in enumerate(graphs.items()):
        generator = torch.Generator().manual_seed(seed + number)
        x = torch.randn(
            graph.num_nodes, channels, generator=generator, dtype=torch.double
        )
        edge = {
            key: make(graph.num_edges, generator)
            for key, make in edge_inputs.items()
        }
        cases.append(_Case(layer, name, graph, x, edge))
    for case in cases:
        _check_steps(case, rtol)
        _check_energy(case, rtol)
    for shuffle_seed in (None, seed):
        _check_union(cases, shuffle_seed, rtol)


class _Case:
    """A layer on one graph, or on the union of several."""

    def __init__(
        self,
        layer: Any,
        name: str,
        graph: Data,
        x: Tensor,
        edge: Mapping[str, Tensor],
        index: Tensor | None = None,
    ) -> None:
        self.layer, self.name, self.graph, self.x = layer, name, graph, x
        if index is None:  # the nodes are one set
            index = torch.zeros(x.size(0), dtype=torch.long)
            self.num_sets = 1
        else:
            self.num_sets = int(index.max()) + 1
        self.index = index
        self.edge = {
            key: value.double() if value.is_floating_point() else value
            for key, value in edge.items()
        }
        self.takes = inspect.signature(layer.forward).parameters

    @property
    def args(self) -> dict[str, Any]:
        if 'edge_index' in self.takes:
            return {'edge_index': self.graph.edge_index, **self.edge}
        if 'index' in self.takes:
            return {'index': self.index, 'dim_size': self.num_sets}
        return {}

    def says(self, quantity: str) -> str:
        layer = type(self.layer).__name__
        return f"{layer} on graph '{self.name}': {quantity}"


def _check_steps(case: _Case, rtol: float) -> None:
    found = case.layer.association(case.x, **case.args)
    state = found.step(found.state).detach()
    state = found.state.expand_as(state)  # one for all sets, or one each
    for _ in range(_NUM_STEPS):
        point = state.detach().clone().requires_grad_()
        energy = found.energy(point)
        (slope,) = torch.autograd.grad(
            energy.sum(), point, materialize_grads=True
        )
        moved = found.step(point).detach()
        quantity = 'one update, over xi - dE/dxi'
        require_close(moved, point - slope, rtol, case.says(quantity))
        fall = energy - found.energy(moved)
        least = 0.5 * (moved - point).square().sum(-1)
        scale = float(energy.detach().abs().max()) if energy.numel() else 0.0
        require(
            bool((fall >= least - 1e-12 * (1 + scale)).all()),
            case.says('an update lowers the energy by less than it must'),
        )
        require(
            bool((energy >= -1e-12 * (1 + scale)).all()),
            case.says('an energy is negative'),
        )
        state = moved


def _check_energy(case: _Case, rtol: float) -> None:
    if case.layer.tol is not None:
        return
    found = case.layer.association(case.x, **case.args)
    state = found.state
    for _ in range(case.layer.steps):
        state = found.step(state)
    expected = found.energy(state).sum()
    energy = case.layer.energy(case.x, **case.args).sum()
    quantity = case.says('energy, over that of its states after all steps')
    require_close(energy, expected, rtol, quantity)


def _check_union(
    cases: list[_Case], shuffle_seed: int | None, rtol: float
) -> None:
    takes = cases[0].takes
    if 'patterns' in takes:
        return  # a dense batch has no unions
    union = disjoint_union([case.graph for case in cases], shuffle_seed)
    merged = _Case(
        cases[0].layer,
        'union' if shuffle_seed is None else 'shuffled union',
        union,
        torch.cat([case.x for case in cases])[union.n_id],
        {
            key: torch.cat([case.edge[key] for case in cases])
            for key in cases[0].edge
        },
        union.batch,
    )
    layer = merged.layer
    alone = [layer(case.x, **case.args) for case in cases]
    together = layer(merged.x, **merged.args)
    expected = torch.cat(alone)
    # of every set (but for empty ones at the end), or of every node
    rows = slice(merged.num_sets) if 'index' in takes else union.n_id
    expected = expected[rows]
    require_close(together, expected, rtol, merged.says('output'))
    energies = [layer.energy(case.x, **case.args).sum() for case in cases]
    total = layer.energy(merged.x, **merged.args).sum()
    quantity = merged.says('energy, over the sum of those of the graphs')
    require_close(total, torch.stack(energies).sum(), rtol, quantity)
