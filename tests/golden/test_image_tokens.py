"""The dense path against numbers of the official JAX code, float64."""

from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.nn.models.image_dynamics import ImageDynamics
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)
from torch_energy_graph.nn.positive import inverse_softplus

HERE = Path(__file__).parent


def load(path, case):
    with np.load(path, allow_pickle=False) as file:
        prefix = f'{case}/'
        return {
            key.removeprefix(prefix): torch.from_numpy(file[key].copy())
            for key in file.files
            if key.startswith(prefix)
        }


def model_of(ref, connectivity):
    num_heads, head_channels, channels = ref['Wq'].shape
    model = ImageEnergyTransformer(
        (len(ref['x0']), 1),  # one patch per token
        1,
        hidden_channels=channels,
        heads=num_heads,
        head_channels=head_channels,
        num_memories=ref['Xi'].size(1),
        step_size=float(ref['alpha']),
        **connectivity,
    ).double()
    block = model.block
    with torch.no_grad():
        block.attention.weight_q.copy_(ref['Wq'])
        block.attention.weight_k.copy_(ref['Wk'])
        block.memory.memories.copy_(ref['Xi'].t())
        block.norm.weight.fill_(inverse_softplus(float(ref['gamma'])))
        block.norm.bias.copy_(ref['delta'])
    block.norm.eps = float(ref['eps'])
    return model


def check(ref, **connectivity):
    def close(actual, expected):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)

    dynamics = model_of(ref, connectivity).dynamics(2)
    assert isinstance(dynamics, ImageDynamics)
    # another image beside it changes nothing
    other = torch.randn_like(ref['x0'])
    x0 = torch.cat([ref['x0'], other])
    batch = torch.arange(2).repeat_interleave(len(other))
    out, trace = dynamics.run(x0, batch, 2, trace=True)
    close(out[: len(other)], ref['trajectory'][-1])
    close(trace.energy[:, 0], ref['energy'])
    for x, grad in zip(ref['trajectory'], ref['grad_g'], strict=False):
        g = dynamics.block.norm(torch.cat([x, other]))
        close(-dynamics.field(g)[: len(other)], grad)
    g = torch.cat([ref['g0'], ref['g0']])
    energy = dynamics.tokens.energy(g).view(2, -1).sum(1)
    close(energy, ref['energy_attention0'].expand(2))


PATHS = [
    {'connectivity': 'complete'},
    {'connectivity': 'radius', 'radius': 99},  # the same graph, as edges
]


@pytest.mark.parametrize('path', PATHS)
@pytest.mark.parametrize('case', ['dense_0', 'dense_2'])
def test_committed_cases(case, path):
    check(load(HERE / 'energy_transformer.npz', case), **path)


@pytest.mark.parametrize('path', PATHS)
@pytest.mark.parametrize('case', ['dense_0', 'dense_1', 'dense_2'])
def test_all_cases(case, path, shared_root, require_file):
    name = 'energy_transformer_reference.npz'
    check(load(require_file(shared_root / 'golden' / name), case), **path)
