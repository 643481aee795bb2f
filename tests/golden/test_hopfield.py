"""Numbers of hflayers 1.0.2, float64, on padded bags."""

from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.energies.retrieval import hopfield_retrieve
from torch_energy_graph.nn.aggr import HopfieldAggregation
from torch_energy_graph.nn.attention.hflayers import load_hflayers_state_dict
from torch_energy_graph.nn.attention.hopfield import Hopfield
from torch_energy_graph.nn.attention.hopfield_memory import HopfieldMemory

HERE = Path(__file__).parent
COMMITTED = [
    'pooling_T0_H1_q1',
    'pooling_T3_H4_q2',
    'retrieval_T5',
    'association_T2',
    'lookup_T2',
]
ALL = [
    *(
        f'pooling_T{steps}_H{heads}_q{states}'
        for steps in (0, 1, 3)
        for heads in (1, 4)
        for states in (1, 2)
    ),
    *(f'retrieval_T{steps}' for steps in (0, 1, 5)),
    *(f'association_T{steps}' for steps in (0, 2)),
    'lookup_T2',
]


def load(path, case):
    with np.load(path, allow_pickle=False) as file:
        prefix = f'{case}/'
        return {
            key.removeprefix(prefix): torch.from_numpy(file[key].copy())
            for key in file.files
            if key.startswith(prefix)
        }


def params(ref):
    prefix = 'param.'
    return {
        key.removeprefix(prefix): value
        for key, value in ref.items()
        if key.startswith(prefix)
    }


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)


def options(ref):
    return {'beta': float(ref['beta']), 'steps': int(ref['update_steps']) + 1}


def check_pooling(ref):
    heads, num_states = int(ref['heads']), int(ref['quantity'])
    weights = params(ref)
    out_proj = weights['hopfield.association_core.out_proj.weight']
    layer = HopfieldAggregation(
        ref['x'].size(1),
        out_proj.size(0),
        num_states=num_states,
        heads=heads,
        hidden_channels=out_proj.size(1),
        **options(ref),
    ).double()
    load_hflayers_state_dict(layer, weights)
    x, batch = ref['x'], ref['batch']
    order = torch.randperm(x.size(0))  # ours takes elements in any order
    out, alpha = layer(x[order], batch[order], return_attention_weights=True)
    close(out, ref['out'])
    sorted_alpha = torch.empty_like(alpha)
    sorted_alpha[order] = alpha  # [N, S, H]
    padded = ref['attention_padded']  # [B, H, S, M]
    for bag in range(padded.size(0)):
        rows = sorted_alpha[batch == bag]
        close(rows.permute(2, 1, 0), padded[bag, ..., : rows.size(0)])
        assert (padded[bag, ..., rows.size(0) :] == 0).all()


def check_retrieval(ref):
    out = hopfield_retrieve(
        ref['state'],
        ref['stored'],
        float(ref['beta']),
        steps=int(ref['update_steps']) + 1,
    )
    close(out, ref['out'])
    free = {'norm_state': False, 'norm_stored': False, 'norm_value': False}
    free |= {f'project_{what}': False for what in ('state', 'stored', 'out')}
    layer = Hopfield(8, project_value=False, **free, **options(ref))
    assert not list(layer.parameters())
    close(layer((ref['stored'], ref['state'])), ref['out'])


def check_association(ref):
    heads, weights = int(ref['heads']), params(ref)
    sizes = ref['state'].size(-1), ref['stored'].size(-1)
    layer = Hopfield(
        (*sizes, sizes[1]),
        heads=heads,
        hidden_channels=weights['association_core.q_proj_weight'].size(0),
        value_channels=weights['association_core.v_proj_weight'].size(0),
        **options(ref),
    ).double()
    load_hflayers_state_dict(layer, weights)
    close(layer((ref['stored'], ref['state'], ref['stored'])), ref['out'])


def check_lookup(ref):
    heads, weights = int(ref['heads']), params(ref)
    out_proj = weights['hopfield.association_core.out_proj.weight']
    layer = HopfieldMemory(
        ref['state'].size(-1),
        num_memories=weights['lookup_weights'].size(1),
        heads=heads,
        hidden_channels=out_proj.size(1),
        **options(ref),
    ).double()
    load_hflayers_state_dict(layer, weights)
    close(layer(ref['state']), ref['out'])


CHECKS = {
    'pooling': check_pooling,
    'retrieval': check_retrieval,
    'association': check_association,
    'lookup': check_lookup,
}


@pytest.mark.parametrize('case', COMMITTED)
def test_committed_cases(case):
    CHECKS[case.partition('_')[0]](load(HERE / 'hopfield.npz', case))


@pytest.mark.parametrize('case', ALL)
def test_all_cases(case, shared_root, require_file):
    name = 'hopfield_reference.npz'
    ref = load(require_file(shared_root / 'golden' / name), case)
    CHECKS[case.partition('_')[0]](ref)
