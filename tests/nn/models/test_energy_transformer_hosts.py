"""EnergyTransformer in the hands of others: compilers, explainers, PyG."""

import pytest
import torch

from torch_geometric.explain import Explainer, GNNExplainer

from tests.nn.models.energy_transformers import FULL, build, inputs
from torch_energy_graph.nn.models.energy_transformer import EnergyTransformer
from torch_energy_graph.testing import (
    conv_checks,
    disjoint_union,
    random_graph,
)


def node_level(in_channels, out_channels):
    return EnergyTransformer(
        in_channels,
        8,
        out_channels,
        num_blocks=1,
        num_steps=1,
        heads=2,
        edge_dim=3,
        modulation_channels=4,
    )


def edge_attr(num_edges, generator):
    return torch.randn(num_edges, 3, generator=generator)


@pytest.mark.parametrize(
    'check',
    [
        pytest.param(
            check,
            id=name,
            marks=[pytest.mark.full] if name == 'compiles_dynamic' else [],
        )
        for name, check in conv_checks('conv')
        if name != 'basic_gnn'  # it is no layer of one
    ],
)
def test_drop_in(check):
    check(node_level, edge_inputs={'edge_attr': edge_attr})


@pytest.mark.full
def test_graph_level_compiles_in_one_graph():
    model = build('cls', num_steps=1, num_blocks=1, **FULL)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend='aot_eager')
    union = disjoint_union([random_graph(5, 12, seed=s) for s in range(2)])
    given = {
        'edge_index': union.edge_index,
        'batch': union.batch,
        'batch_size': 2,
        **inputs(union),
    }
    torch.testing.assert_close(compiled(**given), model(**given))


@pytest.mark.parametrize('readout', ['cls', 'mean'])
def test_explaining_whole_graphs(readout):
    model = EnergyTransformer(3, 8, 5, heads=2, readout=readout)
    explainer = Explainer(
        model,
        GNNExplainer(epochs=2),
        explanation_type='model',
        edge_mask_type='object',
        model_config={
            'mode': 'multiclass_classification',
            'task_level': 'graph',
            'return_type': 'raw',
        },
    )
    graph = random_graph(6, 15, seed=4)
    x = torch.randn(6, 3)
    if readout == 'cls':
        with pytest.raises(ValueError, match='use an aggregation'):
            explainer(x, graph.edge_index)
    else:
        mask = explainer(x, graph.edge_index).edge_mask
        assert mask.shape == (15,)
        assert (mask > 0).any()
