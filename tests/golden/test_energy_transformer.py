"""Numbers of the official JAX code, float64, complete graph with loops."""

from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.nn import EnergyTransformerConv
from torch_energy_graph.nn.positive import inverse_softplus
from torch_energy_graph.ops import use_backend

HERE = Path(__file__).parent


def load(path, case):
    with np.load(path, allow_pickle=False) as file:
        prefix = f'{case}/'
        return {
            key.removeprefix(prefix): torch.from_numpy(file[key].copy())
            for key in file.files
            if key.startswith(prefix)
        }


def layer_of(ref):
    num_heads, head_channels, channels = ref['Wq'].shape
    layer = EnergyTransformerConv(
        channels,
        heads=num_heads,
        head_channels=head_channels,
        num_memories=ref['Xi'].size(1),
        num_steps=12,
        step_size=float(ref['alpha']),
    ).double()
    with torch.no_grad():
        layer.attention.weight_q.copy_(ref['Wq'])
        layer.attention.weight_k.copy_(ref['Wk'])
        layer.memory.memories.copy_(ref['Xi'].t())
        layer.norm.weight.fill_(inverse_softplus(float(ref['gamma'])))
        layer.norm.bias.copy_(ref['delta'])
        layer.norm.eps = float(ref['eps'])
    return layer


def complete_graph(num_nodes):
    nodes = torch.arange(num_nodes)
    return torch.cartesian_prod(nodes, nodes).t()


def check(ref):
    def close(actual, expected):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)

    layer = layer_of(ref)
    edge_index = complete_graph(ref['x0'].size(0))
    out, trace = layer(ref['x0'], edge_index, return_trace=True)
    close(out, ref['trajectory'][-1])
    close(trace.energy, ref['energy'])
    close(layer.norm(ref['x0']), ref['g0'])
    g0 = ref['g0']
    close(layer.attention.energy(g0, edge_index), ref['energy_attention0'])
    close(layer.memory.energy(g0), ref['energy_hopfield0'])
    for x, grad in zip(ref['trajectory'], ref['grad_g'], strict=False):
        g = layer.norm(x)
        close(-layer.attention(g, edge_index) - layer.memory(g), grad)


@pytest.mark.parametrize('backend', ['torch', 'reference'])
@pytest.mark.parametrize('case', ['dense_0', 'dense_2'])
def test_committed_cases(case, backend):
    with use_backend(backend):
        check(load(HERE / 'energy_transformer.npz', case))


@pytest.mark.parametrize('case', ['dense_0', 'dense_1', 'dense_2'])
def test_all_cases(case, shared_root, require_file):
    name = 'energy_transformer_reference.npz'
    check(load(require_file(shared_root / 'golden' / name), case))
