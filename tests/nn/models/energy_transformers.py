"""Models and inputs of the tests of EnergyTransformer."""

from functools import partial

import torch

from torch_energy_graph.nn.models.energy_transformer import EnergyTransformer

FULL = {'edge_dim': 2, 'modulation_channels': 3, 'pe_channels': 4}


def build(readout=None, **kwargs):
    torch.manual_seed(0)
    options = {'num_steps': 2, 'heads': 2, 'readout': readout, **kwargs}
    model = EnergyTransformer(3, 8, 5, **options).double()
    with torch.no_grad():  # a large token, so that it matters
        if model.token is not None:
            model.token.weight.normal_()
    return model


def inputs(graph, seed=0, edge_dim=2):
    gen = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=gen, dtype=torch.double)
    return {
        'x': draw(graph.num_nodes, 3),
        'edge_attr': draw(graph.num_edges, edge_dim),
        'pe': draw(graph.num_nodes, 4),
    }
