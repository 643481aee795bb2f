"""Checks of what a layer computes, on every form of input."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_geometric import EdgeIndex
from torch_geometric.utils import (
    to_torch_coo_tensor,
    to_torch_csc_tensor,
    to_torch_csr_tensor,
)

from torch_energy_graph.ops import GraphCache
from torch_energy_graph.typing import WITH_TORCH_SPARSE, SparseTensor

from .errors import require, require_close
from .graphs import random_graph, standard_graphs
from .subject import IN_CHANNELS, Call, Subject, conv_check

_RTOL = 1e-5  # float32
_HALF_RTOL = {torch.float16: 1e-2, torch.bfloat16: 6e-2}


@conv_check('conv', 'field', 'node')
def shape_and_repr(subject: Subject) -> None:
    """Output shape and type; the name and sizes in the representation."""
    layer, call = subject.layer(), subject.call()
    out = call.on(layer)
    expected = (call.x.size(0), subject.out_channels)
    require(
        out.shape == expected and out.dtype == call.x.dtype,
        f'expected {expected} of {call.x.dtype} '
        f'(got {tuple(out.shape)} of {out.dtype})',
    )
    sizes = f'{IN_CHANNELS}'
    if subject.profile == 'conv':
        sizes = f'{IN_CHANNELS}, {subject.out_channels}'
    start = f'{type(layer).__name__}({sizes}'
    require(
        repr(layer).startswith(start),
        f'expected a representation {start}...) (got {layer!r})',
    )


@conv_check('conv')
def lazy_channels(subject: Subject) -> None:
    """``in_channels=-1`` gives the same layer after the first call."""
    call, eager = subject.call(), subject.layer()
    expected = call.on(eager)
    for loaded_first in (True, False):
        lazy = subject.layer(in_channels=-1, seed=1)
        empty = copy.deepcopy(lazy.state_dict())
        if not loaded_first:
            call.on(lazy)
            subject.layer(in_channels=-1).load_state_dict(empty)
        lazy.load_state_dict(eager.state_dict())
        when = 'before' if loaded_first else 'after'
        what = f'lazy layer, weights loaded {when} its first call'
        require_close(call.on(lazy), expected, _RTOL, what)


@conv_check('conv', 'field')
def sorted_edge_index(subject: Subject) -> None:
    """An `EdgeIndex` in any order, cached or not, gives the same numbers."""
    layer, call = subject.layer(), subject.call()
    expected = call.on(layer)
    for name, other in _edge_indices(call):
        require_close(other.on(layer), expected, _RTOL, name)


def _edge_indices(call: Call) -> Iterator[tuple[str, Call]]:
    x, edge_index, size = call.x, call.edge_index, (call.x.size(0),) * 2
    for order in ('col', 'row'):
        index, perm = EdgeIndex(edge_index, sparse_size=size).sort_by(order)
        edge = {key: value[perm] for key, value in call.edge.items()}
        yield f'EdgeIndex sorted by {order}', Call(x, index, edge)
        index.fill_cache_()
        yield f'EdgeIndex by {order}, cache filled', Call(x, index, edge)


@conv_check('conv', 'field')
def sparse_csr(subject: Subject) -> None:
    """A transposed adjacency in `torch.sparse` CSR, PyG's usual form."""
    _check_sparse(subject, lambda *edges: to_torch_csc_tensor(*edges).t())


@conv_check('conv', 'field')
def sparse_csc(subject: Subject) -> None:
    """A transposed adjacency in `torch.sparse` CSC."""
    _check_sparse(subject, lambda *edges: to_torch_csr_tensor(*edges).t())


@conv_check('conv', 'field')
def sparse_coo(subject: Subject) -> None:
    """A transposed adjacency in `torch.sparse` COO."""
    _check_sparse(
        subject, lambda *edges: to_torch_coo_tensor(*edges).t().coalesce()
    )


@conv_check('conv', 'field')
def sparse_tensor(subject: Subject) -> None:
    """A transposed `SparseTensor`, where torch-sparse is installed."""
    if WITH_TORCH_SPARSE:
        _check_sparse(
            subject,
            lambda edge_index, value, size: SparseTensor.from_edge_index(
                edge_index, value, sparse_sizes=size
            ).t(),
        )


def _check_sparse(subject: Subject, convert: Callable[..., Any]) -> None:
    layer, call = subject.layer(), subject.call()
    values = list(call.edge.values())
    holds_one_number = [
        value.dim() == 1 and value.is_floating_point() for value in values
    ]
    if holds_one_number not in ([], [True]):
        return  # a matrix holds one number per edge
    num_nodes = call.x.size(0)
    value = values[0] if values else None
    adj_t = convert(call.edge_index, value, (num_nodes, num_nodes))
    what = 'output on a sparse adjacency'
    require_close(Call(call.x, adj_t).on(layer), call.on(layer), _RTOL, what)


@conv_check('conv', 'field')
def graph_cache(subject: Subject) -> None:
    """A cached graph gives what its edges give, parallel ones included."""
    layer = subject.layer()
    call = subject.call(random_graph(10, 40, num_isolated=2))
    cache = GraphCache.from_edge_index(call.edge_index, call.x.size(0))
    out = Call(call.x, cache, call.edge).on(layer)
    require_close(out, call.on(layer), _RTOL, 'GraphCache')


@conv_check('conv', 'field')
def edge_order(subject: Subject) -> None:
    """The order of the edges does not matter."""
    layer = subject.layer()
    call = subject.call(random_graph(10, 40, num_isolated=2))
    perm = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    edge = {key: value[perm] for key, value in call.edge.items()}
    shuffled = Call(call.x, call.edge_index[:, perm], edge)
    what = 'output on shuffled edges'
    require_close(shuffled.on(layer), call.on(layer), _RTOL, what)


@conv_check('conv', 'field', 'node')
def node_permutation(subject: Subject) -> None:
    """Renumbered nodes give renumbered outputs."""
    layer = subject.layer()
    call = subject.call(random_graph(10, 40, num_isolated=2))
    perm = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    edge_index = call.edge_index
    if edge_index is not None:
        edge_index = perm.argsort()[edge_index]
    out = Call(call.x[perm], edge_index, call.edge).on(layer)
    what = 'output of renumbered nodes'
    require_close(out, call.on(layer)[perm], _RTOL, what)


@conv_check('conv', 'field')
def bipartite(subject: Subject) -> None:
    """Bipartite input works, or says clearly that it does not."""
    layer, call = subject.layer(), subject.call()
    x_dst = call.x[:5]
    keep = call.edge_index[1] < 5
    edge = {key: value[keep] for key, value in call.edge.items()}
    try:
        out = layer((call.x, x_dst), call.edge_index[:, keep], **edge)
    except ValueError as error:
        require(
            'bipartite' in str(error),
            f"expected a ValueError about 'bipartite' input (got '{error}')",
        )
        return
    require(
        out.shape == (5, subject.out_channels) and bool(out.isfinite().all()),
        f'expected finite output for 5 targets (got {list(out.shape)})',
    )


@conv_check('conv', 'field', 'node')
def degenerate_graphs(subject: Subject) -> None:
    """Outputs and gradients are finite on every graph of the zoo."""
    layer = subject.layer()
    for name, graph in standard_graphs().items():
        call = subject.call(graph)
        call.x.requires_grad_()
        out = call.on(layer)
        expected = (graph.num_nodes, subject.out_channels)
        require(
            out.shape == expected,
            f"graph '{name}': expected {expected} (got {tuple(out.shape)})",
        )
        (grad,) = torch.autograd.grad(
            out.sum(), call.x, materialize_grads=True
        )
        for what, value in (('output', out), ('gradient', grad)):
            require(
                bool(value.isfinite().all()),
                f"graph '{name}': {what} is not finite",
            )


@conv_check('conv', 'field', 'node')
def dtypes(subject: Subject) -> None:
    """All floating-point types keep their type, close to float64."""
    for dtype, rtol in {torch.float32: _RTOL, **_HALF_RTOL}.items():
        layer, call = subject.layer().to(dtype), subject.call().to(dtype)
        out = call.on(layer)
        require(out.dtype == dtype, f'expected {dtype} (got {out.dtype})')
        # the reference has the rounded inputs and weights, too
        exact = call.to(torch.double).on(copy.deepcopy(layer).double())
        require(
            exact.dtype == torch.double,
            f'expected torch.float64 (got {exact.dtype})',
        )
        require_close(out, exact, rtol, f'output in {dtype}')


@conv_check('conv', 'field', 'node')
def autocast(subject: Subject) -> None:
    """Mixed precision is close to float64, and trains."""
    layer, call = subject.layer(), subject.call()
    with torch.autocast('cpu', dtype=torch.bfloat16):
        out = call.on(layer)
    out.float().sum().backward()
    exact = call.to(torch.double).on(copy.deepcopy(layer).double())
    rtol = _HALF_RTOL[torch.bfloat16]
    require_close(out, exact, rtol, 'output under autocast to bfloat16')


@conv_check('conv', 'field')
def int32_edges(subject: Subject) -> None:
    """Node ids in int32 give the same numbers."""
    layer, call = subject.layer(), subject.call()
    narrow = Call(call.x, call.edge_index.int(), call.edge)
    require_close(narrow.on(layer), call.on(layer), _RTOL, 'int32 edges')
