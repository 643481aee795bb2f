"""Checks of how a layer lives: grad modes, compilers, copies, seeds."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module

from .errors import require, require_close
from .graphs import random_graph
from .subject import Call, Subject, conv_check, seeded

_RTOL = 1e-5  # float32


@conv_check('conv', 'field', 'node')
def grad_modes(subject: Subject) -> None:
    """Only what should require gradients does."""
    layer, call = subject.layer(), subject.call()
    expected = call.on(layer)
    require(expected.requires_grad, 'expected an output with gradient')
    with torch.no_grad():
        out = call.on(layer)
    require(not out.requires_grad, 'output requires grad under no_grad')
    require_close(out, expected, _RTOL, 'output under no_grad')
    with torch.inference_mode():
        out = call.on(layer)
    require_close(out, expected, _RTOL, 'output under inference_mode')


@conv_check('conv', 'field', 'node')
def compiles(subject: Subject) -> None:
    """One full graph; outputs and gradients equal those of eager mode."""
    layer, call = subject.layer(), subject.call()
    compiled = _compile(layer, 'aot_eager', dynamic=False)
    expected, grads = _forward_backward(layer, layer, call)
    out, compiled_grads = _forward_backward(compiled, layer, call)
    require_close(out, expected, _RTOL, 'compiled output')
    for key, grad in grads.items():
        what = f'compiled gradient of {key}'
        require_close(compiled_grads[key], grad, 1e-4, what)


@conv_check('conv', 'field', 'node')
def compiles_dynamic(subject: Subject) -> None:
    """Graphs of three sizes share one compiled graph."""
    layer = subject.layer()
    compiled = _compile(layer, 'aot_eager', dynamic=True)
    subject.call().on(compiled)
    for num_nodes, num_edges in ((15, 50), (9, 21)):
        call = subject.call(random_graph(num_nodes, num_edges))
        with torch.compiler.set_stance('fail_on_recompile'):
            out = call.on(compiled)
        what = f'compiled output for {num_nodes} nodes'
        require_close(out, call.on(layer), _RTOL, what)


def _compile(layer: Module, backend: str, dynamic: bool) -> Any:
    torch._dynamo.reset()
    return torch.compile(
        layer, fullgraph=True, backend=backend, dynamic=dynamic
    )


def _forward_backward(
    run: Any, layer: Module, call: Call
) -> tuple[Tensor, dict[str, Tensor]]:
    x = call.x.clone().requires_grad_()
    out = Call(x, call.edge_index, call.edge).on(run)
    wanted = {'x': x, **dict(layer.named_parameters())}
    grads = torch.autograd.grad(
        out.square().sum(), list(wanted.values()), materialize_grads=True
    )
    return out, dict(zip(wanted, grads, strict=True))


@conv_check('conv', 'field', 'node')
def exports(subject: Subject) -> None:
    """An exported layer runs on a graph of another size."""
    layer, call = subject.layer(), subject.call()
    dynamic = torch.export.Dim.DYNAMIC
    shapes: dict[str, Any] = {
        name: {axis: dynamic}
        for axis, name in zip(
            range(len(call.args)),
            inspect.signature(layer.forward).parameters,
            strict=False,
        )
    }
    shapes.update({key: {0: dynamic} for key in call.edge})
    program = torch.export.export(
        layer, call.args, call.edge, dynamic_shapes=shapes
    )
    other = subject.call(random_graph(15, 50, 1))
    for case in (call, other):
        out = case.on(program.module())
        require_close(out, case.on(layer), _RTOL, 'exported output')


@conv_check('conv', 'field', 'node')
def copies(subject: Subject) -> None:
    """Deep copies and pickles compute the same with weights of their own."""
    layer, call = subject.layer(), subject.call()
    expected = call.on(layer).detach()
    for name, other in (
        ('deep copy', copy.deepcopy(layer)),
        ('pickle', pickle.loads(pickle.dumps(layer))),
    ):
        require_close(call.on(other), expected, _RTOL, name)
        with torch.no_grad():
            for weight in other.parameters():
                weight.fill_(0.1)
        what = f'layer after its {name} was changed'
        require_close(call.on(layer), expected, _RTOL, what)


@conv_check('conv', 'field', 'node')
def state_dict(subject: Subject) -> None:
    """Saved weights, read without unpickling, restore a layer."""
    layer, call = subject.layer(), subject.call()
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = subject.layer(seed=1)
    other.load_state_dict(torch.load(file, weights_only=True))
    require_close(call.on(other), call.on(layer), _RTOL, 'restored layer')


@conv_check('conv', 'field', 'node')
def gradients(subject: Subject) -> None:
    """Gradients of input and weights equal finite differences."""
    layer = subject.layer().double()
    call = subject.call(random_graph(6, 14, num_isolated=1)).to(torch.double)
    names, weights = zip(*layer.named_parameters(), strict=True)

    def run(x: Tensor, *values: Tensor) -> Tensor:
        case = Call(x, call.edge_index, call.edge)
        state = dict(zip(names, values, strict=True))
        return case.on(
            lambda *args, **kwargs: functional_call(layer, state, args, kwargs)
        )

    inputs = [
        value.detach().clone().requires_grad_() for value in (call.x, *weights)
    ]
    torch.autograd.gradcheck(run, inputs, fast_mode=True)


@conv_check('conv', 'field', 'node')
def reset_parameters(subject: Subject) -> None:
    """Draws every weight anew, and the same ones with the same seed."""
    first: Any = subject.layer()
    second: Any = subject.layer(seed=1)
    with torch.no_grad():
        for weight in second.parameters():
            weight.fill_(7.0)
    for layer in (first, second):
        with seeded(5):
            layer.reset_parameters()
    expected = dict(first.named_parameters())
    for name, weight in second.named_parameters():
        what = f'{name} after reset_parameters with the same seed'
        require_close(weight, expected[name], 0.0, what)


@conv_check('conv', 'field', 'node')
def deterministic_eval(subject: Subject) -> None:
    """In eval mode the global generator is not used."""
    layer, call = subject.layer(), subject.call()
    with seeded(0):
        before = torch.get_rng_state()
        first = call.on(layer)
        require(
            torch.equal(before, torch.get_rng_state()),
            'forward in eval mode draws from the global generator',
        )
    with seeded(1):
        second = call.on(layer)
    require(torch.equal(first, second), 'two calls differ in eval mode')
