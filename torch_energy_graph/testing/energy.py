r"""Is a layer the exact negative gradient of its energy?

Everything runs in float64 on a copy of the layer in eval mode. A *field*
layer maps activations g to :math:`-\partial E / \partial g`. A *state* layer
has ``norm``, ``embed`` and ``num_steps`` and moves a state by
:math:`-\alpha\, \partial E / \partial g` at :math:`g = \mathrm{norm}(x)`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torch_geometric.data import Data

from torch_energy_graph.dynamics import descend, safe_step_size
from torch_energy_graph.nn import EnergyLayerNorm

from .errors import ContractError, require, require_close
from .graphs import disjoint_union, standard_graphs
from .retrieval import check_retrieval
from .subject import EdgeInput

__all__ = ['check_energy']

_NUM_STEPS = 10  # of the descent with the certified step


def check_energy(
    layer: Module,
    graphs: Mapping[str, Data] | None = None,
    *,
    edge_inputs: Mapping[str, EdgeInput] | None = None,
    channels: int | None = None,
    seed: int = 0,
    rtol: float = 1e-10,
) -> None:
    r"""Checks the energy contract of a layer.

    - The output is :math:`-\partial E / \partial g` as autograd has it (for a
      state layer: one step is that, times the step size of the trace).
    - Node energies sum to the energy of the graph; a disjoint union, its
      nodes sorted by graph or not, gives what the graphs give alone.
    - A trace has one energy per state, and they are those of
      ``layer.energy``.
    - The energy does not rise with the certified step, where the layer has
      one (``step_size='auto'``, or ``prepare`` and ``curvature``).

    With ``energy_contract = 'retrieval'``, that every update is
    :math:`\xi - \partial E / \partial \xi` and lowers E as much as it must;
    see :mod:`.retrieval`.

    Args:
        layer (torch.nn.Module): A layer with ``energy_contract = 'exact'``
            or ``'retrieval'`` and a method ``energy``; layers without
            ``edge_index`` work, too. It is copied, not changed.
        graphs (dict, optional): Graphs by name.
            (default: :func:`standard_graphs`)
        edge_inputs (dict, optional): Further inputs by keyword, each a
            function of the number of edges and a generator, such as
            ``{'edge_attr': lambda num_edges, generator: torch.randn(
            num_edges, 3, generator=generator)}``. Where the layer takes
            ``edge_weight``, positive weights are tried by themselves.
        channels (int, optional): Number of input channels. (default:
            ``layer.channels`` or ``layer.in_channels``)
        seed (int, optional): Seed of graphs and features.
            (default: :obj:`0`)
        rtol (float, optional): Allowed deviation over the largest value.
            (default: :obj:`1e-10`)

    Raises:
        ContractError: Names the graph, the quantity and the deviation.
        ValueError: If the layer promises no exact energy.
    """
    contract = getattr(layer, 'energy_contract', None)
    if contract not in ('exact', 'retrieval'):
        raise ValueError(
            f"'check_energy' expects a layer with energy_contract = 'exact' "
            f"or 'retrieval' (got {contract!r}); other layers promise no "
            f'gradient'
        )
    layer = copy.deepcopy(layer).double().eval()
    channels = _channels(layer) if channels is None else channels
    graphs = standard_graphs(seed) if graphs is None else graphs
    if contract == 'retrieval':
        inputs = edge_inputs or {}
        check_retrieval(layer, graphs, inputs, channels, seed, rtol)
        return
    for inputs in _input_sets(layer, edge_inputs or {}):
        cases = [
            _Case(layer, name, graph, inputs, channels, seed + number)
            for number, (name, graph) in enumerate(graphs.items())
        ]
        for case in cases:
            _check_gradient(case, rtol)
            _check_node_energies(case, rtol)
            _check_certificate(case)
        for shuffle_seed in (None, seed):
            _check_union(cases, shuffle_seed, rtol)


class _Case:
    """A layer on one graph, with features and edge inputs."""

    def __init__(
        self,
        layer: Any,
        name: str,
        graph: Data,
        inputs: Mapping[str, EdgeInput],
        channels: int,
        seed: int,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.layer, self.name, self.graph = layer, name, graph
        self.x = torch.randn(
            graph.num_nodes, channels, generator=generator, dtype=torch.double
        )
        made = {
            key: make(graph.num_edges, generator)
            for key, make in inputs.items()
        }
        self.edge = {
            key: value.double() if value.is_floating_point() else value
            for key, value in made.items()
        }

    @property
    def is_state_layer(self) -> bool:
        names = ('norm', 'embed', 'num_steps')
        return all(hasattr(self.layer, name) for name in names)

    def forward(self, **options: Any) -> Any:
        return self.layer(self.x, *self._edges(), **self.edge, **options)

    def point(self) -> Tensor:
        """What `layer.energy` takes: an activation, or a state."""
        if self.is_state_layer:
            return self.layer.embed(self.x).detach()
        return self.x

    def energy(self, point: Tensor, **options: Any) -> Tensor:
        out = self.layer.energy(point, *self._edges(), **self.edge, **options)
        if not isinstance(out, Tensor):
            raise ContractError(f'energy is no tensor (got {type(out)})')
        return out

    def with_layer(self, **changes: Any) -> _Case:
        """The same case with attributes of a copied layer replaced."""
        case = copy.copy(self)
        case.layer = copy.deepcopy(self.layer)
        for name, value in changes.items():
            setattr(case.layer, name, value)
        return case

    def says(self, quantity: str) -> str:
        weighted = ' with ' + ', '.join(self.edge) if self.edge else ''
        layer = type(self.layer).__name__
        return f"{layer} on graph '{self.name}'{weighted}: {quantity}"

    def _edges(self) -> list[Tensor]:
        takes = inspect.signature(self.layer.forward).parameters
        return [self.graph.edge_index] if 'edge_index' in takes else []


def _check_gradient(case: _Case, rtol: float) -> None:
    if not case.is_state_layer:
        expected = -_gradient(case, case.x)
        require_close(case.forward(), expected, rtol, case.says('-dE/dg'))
        return
    state = case.point()
    g = case.layer.norm(state).detach()
    # without its norm, the energy of the layer is a function of g
    slope = _gradient(case.with_layer(norm=torch.nn.Identity()), g)
    out, trace = case.with_layer(num_steps=1).forward(return_trace=True)
    alpha = trace.step_size[0]
    alpha = alpha.unsqueeze(-1) if alpha.dim() == 1 else alpha
    quantity = case.says('one step, over -alpha dE/dg')
    require_close(out - state, -alpha * slope, rtol, quantity)
    # by the chain rule, energy(x) is E at norm(x)
    _, expected = torch.autograd.functional.vjp(case.layer.norm, state, slope)
    actual = _gradient(case, state)
    require_close(actual, expected, rtol, case.says('dE/dx through the norm'))
    _check_trace(case, rtol)


def _check_trace(case: _Case, rtol: float) -> None:
    out, trace = case.forward(return_trace=True)
    steps = case.layer.num_steps
    require(
        trace.energy.size(0) == steps + 1,
        case.says(
            f'expected a trace of {steps + 1} energies '
            f'(got {trace.energy.size(0)})'
        ),
    )
    ends = torch.stack([trace.energy[0], trace.energy[-1]])
    expected = torch.stack([case.energy(case.point()), case.energy(out)])
    require_close(ends, expected, rtol, case.says('ends of the trace'))


def _check_node_energies(case: _Case, rtol: float) -> None:
    point = case.point()
    nodes = case.energy(point, reduction='node')
    require(
        nodes.shape == (case.graph.num_nodes,),
        case.says(f'expected one energy per node (got {list(nodes.shape)})'),
    )
    total = case.energy(point)
    quantity = case.says('energy of the graph, over the sum of its nodes')
    require_close(total, nodes.sum(), rtol, quantity)


def _check_union(
    cases: list[_Case], shuffle_seed: int | None, rtol: float
) -> None:
    union = disjoint_union([case.graph for case in cases], shuffle_seed)
    merged = copy.copy(cases[0])
    merged.name = 'union' if shuffle_seed is None else 'shuffled union'
    merged.graph = union
    merged.x = torch.cat([case.x for case in cases])[union.n_id]
    merged.edge = {
        key: torch.cat([case.edge[key] for case in cases])
        for key in cases[0].edge
    }
    groups = {'batch': union.batch, 'batch_size': len(cases)}
    alone = torch.stack([case.energy(case.point()) for case in cases])
    together = merged.energy(merged.point(), **groups)
    require_close(together, alone, rtol, merged.says('energies of the graphs'))
    states = torch.cat([case.forward() for case in cases])[union.n_id]
    require_close(merged.forward(), states, rtol, merged.says('output'))
    if merged.is_state_layer:
        _, trace = merged.forward(return_trace=True, **groups)
        traces = [case.forward(return_trace=True)[1].energy for case in cases]
        expected = torch.stack(traces, dim=1)  # [T + 1, B]
        require_close(trace.energy, expected, rtol, merged.says('trace'))


def _check_certificate(case: _Case) -> None:
    if case.is_state_layer:
        if getattr(case.layer, 'step_size', None) != 'auto':
            return
        _, trace = case.with_layer(num_steps=_NUM_STEPS).forward(
            return_trace=True
        )
    elif hasattr(case.layer, 'prepare') and hasattr(case.layer, 'curvature'):
        trace = _descent(case)
    else:
        return
    rise = float(trace.energy.diff(dim=0).max())
    require(
        trace.is_monotone(1e-10),
        case.says(f'the certified step raised the energy by {rise:.3g}'),
    )


def _descent(case: _Case) -> Any:
    """Trace of a field layer with the certified step."""
    norm = EnergyLayerNorm(case.x.size(-1)).double()
    edges = case.layer.prepare(case.x, *case._edges(), **case.edge)
    curvature = case.layer.curvature(edges)

    def at(g: Tensor) -> _Case:
        moved = copy.copy(case)
        moved.x = g
        return moved

    def rule(x: Tensor, force: Tensor) -> Tensor:
        return safe_step_size(norm.sigma(x), norm.gamma, curvature, force)

    _, trace = descend(
        case.x,
        norm,
        lambda g: at(g).forward(),
        _NUM_STEPS,
        rule,
        energy=lambda g: case.energy(g, reduction='node'),
    )
    return trace


def _gradient(case: _Case, point: Tensor) -> Tensor:
    point = point.clone().requires_grad_()
    (out,) = torch.autograd.grad(
        case.energy(point).sum(), point, materialize_grads=True
    )
    return out


def _channels(layer: Module) -> int:
    for name in ('channels', 'in_channels'):
        value = getattr(layer, name, None)
        if isinstance(value, int) and value > 0:
            return value
    raise ValueError(
        f"'check_energy' cannot tell the input channels of "
        f"{type(layer).__name__}; give 'channels'"
    )


def _input_sets(
    layer: Module, edge_inputs: Mapping[str, EdgeInput]
) -> list[dict[str, EdgeInput]]:
    """The given inputs, and once more with weights where they are taken."""
    given = dict(edge_inputs)
    takes = inspect.signature(layer.forward).parameters
    if 'edge_weight' not in takes or 'edge_weight' in given:
        return [given]
    return [given, {**given, 'edge_weight': _weights}]


def _weights(num_edges: int, generator: torch.Generator) -> Tensor:
    return 0.1 + 2 * torch.rand(num_edges, generator=generator)
