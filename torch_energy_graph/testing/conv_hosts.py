"""Checks of the places in PyG where a layer is put."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torch_geometric.explain import (
    AttentionExplainer,
    Explainer,
    Explanation,
    GNNExplainer,
)
from torch_geometric.nn import (
    HeteroConv,
    MessagePassing,
    Sequential,
    to_hetero,
)
from torch_geometric.nn.models.basic_gnn import BasicGNN

from .errors import require, require_close
from .graphs import random_graph
from .subject import (
    IN_CHANNELS,
    OUT_CHANNELS,
    Call,
    Subject,
    conv_check,
    seeded,
)

_RTOL = 1e-5  # float32


@conv_check('conv')
def basic_gnn(subject: Subject) -> None:
    """The layer is what a `BasicGNN` is made of."""

    class Host(BasicGNN):
        supports_edge_weight = 'edge_weight' in subject.edge_inputs
        supports_edge_attr = 'edge_attr' in subject.edge_inputs
        supports_norm_batch = False

        def init_conv(
            self, in_channels: int, out_channels: int, **kwargs: Any
        ) -> Module:
            return subject.factory(in_channels, out_channels, **kwargs)

    for jk in (None, 'cat'):
        with seeded():
            model = Host(IN_CHANNELS, 16, 2, OUT_CHANNELS, jk=jk, norm='layer')
        call = subject.call()
        out = call.on(model)
        require(
            out.shape == (call.x.size(0), OUT_CHANNELS),
            f'expected {OUT_CHANNELS} channels (got {list(out.shape)})',
        )
        out.sum().backward()
        model.reset_parameters()


@conv_check('conv', 'field')
def sequential(subject: Subject) -> None:
    """Works in PyG's `Sequential`, which passes arguments by position."""
    if subject.edge_inputs:
        return  # their position is the layer's own affair
    layer, call = subject.layer(), subject.call()
    steps = [(layer, 'x, edge_index -> x'), torch.nn.ReLU()]
    model = Sequential('x, edge_index', steps)
    expected = call.on(layer).relu()
    require_close(call.on(model), expected, _RTOL, 'Sequential')


@conv_check('conv', 'field')
def hetero_conv(subject: Subject) -> None:
    """Two relations in a `HeteroConv` add up."""
    graphs = [random_graph(10, 30, seed) for seed in (1, 2)]
    calls = [subject.call(graph) for graph in graphs]
    layers = [subject.layer(seed=seed) for seed in (1, 2)]
    kinds = [('node', name, 'node') for name in ('first', 'second')]
    model = HeteroConv(dict(zip(kinds, layers, strict=True)), aggr='sum')
    edges = {
        f'{key}_dict': {
            kind: call.edge[key]
            for kind, call in zip(kinds, calls, strict=True)
        }
        for key in subject.edge_inputs
    }
    indices = {
        kind: call.edge_index for kind, call in zip(kinds, calls, strict=True)
    }
    out = model({'node': calls[0].x}, indices, **edges)['node']
    expected = torch.stack(
        [
            Call(calls[0].x, call.edge_index, call.edge).on(layer)
            for call, layer in zip(calls, layers, strict=True)
        ]
    ).sum(0)
    require_close(out, expected, _RTOL, 'HeteroConv')


@conv_check('conv', 'field')
def hetero_transform(subject: Subject) -> None:
    """`to_hetero` works, or says clearly that the layer is not bipartite."""
    if subject.edge_inputs:
        return  # `to_hetero` reads the call of the model, not of the layer

    class Host(Module):
        def __init__(self, conv: Module) -> None:
            super().__init__()
            self.conv = conv

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    call = subject.call()
    kind = ('a', 'to', 'b')
    back = ('b', 'to', 'a')
    x = {'a': call.x, 'b': call.x}
    edges = {kind: call.edge_index, back: call.edge_index.flip(0)}
    try:
        # PyG itself refuses layers that add self-loops
        model = to_hetero(Host(subject.layer()), (['a', 'b'], [kind, back]))
        out = model(x, edges)
    except ValueError as error:
        require(
            any(word in str(error) for word in ('bipartite', 'edge type')),
            f"expected a ValueError about 'bipartite' input (got '{error}')",
        )
        return
    for name, value in out.items():
        require(
            value.shape == (call.x.size(0), subject.out_channels),
            f'expected output for every node of {name} '
            f'(got {list(value.shape)})',
        )


@conv_check('conv', 'field')
def gnn_explainer(subject: Subject) -> None:
    """`GNNExplainer` gives one number per edge and leaves no trace."""
    layer, call = subject.layer(), subject.call()
    expected = call.on(layer)
    explanation = _explain(layer, call, GNNExplainer(epochs=3), 'attributes')
    _require_edge_mask(explanation.edge_mask, call)
    require_close(call.on(layer), expected, _RTOL, 'output after explaining')


@conv_check('conv', 'field')
def attention_explainer(subject: Subject) -> None:
    """`AttentionExplainer` finds attention weights, one per edge."""
    layer, call = subject.layer(), subject.call()
    expected = call.on(layer)
    explanation = _explain(layer, call, AttentionExplainer(), None)
    _require_edge_mask(explanation.edge_mask, call)
    require_close(call.on(layer), expected, _RTOL, 'output after explaining')


def _explain(
    layer: Module, call: Call, algorithm: Any, node_mask_type: str | None
) -> Explanation:
    explainer = Explainer(
        layer,
        algorithm,
        explanation_type='model',
        node_mask_type=node_mask_type,
        edge_mask_type='object',
        model_config={
            'mode': 'regression',
            'task_level': 'node',
            'return_type': 'raw',
        },
    )
    with seeded():
        return explainer(call.x, call.edge_index, **call.edge)


def _require_edge_mask(mask: Tensor, call: Call) -> None:
    num_edges = call.edge_index.size(1)
    require(
        mask.shape == (num_edges,),
        f'expected a mask of {num_edges} edges (got {list(mask.shape)})',
    )
    require(
        bool(mask.isfinite().all()) and bool((mask > 0).any()),
        'expected finite weights, not all of them zero',
    )


@conv_check('conv', 'field', 'node')
def forward_hooks(subject: Subject) -> None:
    """Hooks of torch and of PyG are called and change nothing."""
    layer, call = subject.layer(), subject.call()
    expected = call.on(layer)
    seen: set[str] = set()
    layer.register_forward_pre_hook(lambda *_: seen.add('forward_pre'))
    layer.register_forward_hook(lambda *_: seen.add('forward'))
    wanted = {'forward_pre', 'forward'}
    inner = [m for m in layer.modules() if isinstance(m, MessagePassing)]
    for module in inner:
        module.register_propagate_forward_hook(
            lambda *_: seen.add('propagate')
        )
        module.register_message_forward_hook(lambda *_: seen.add('message'))
        wanted |= {'propagate', 'message'}
    require_close(call.on(layer), expected, _RTOL, 'output with hooks')
    require(seen == wanted, f'hooks not called: {sorted(wanted - seen)}')
