"""Numbers of the released code in float64: outputs and gradients."""

from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.nn import DIFFormerConv
from torch_energy_graph.nn.models import DIFFormer, from_released_difformer

HERE = Path(__file__).parent
MODES = ['graph', 'nograph', 'weighted', 'directed', 'gw']
CASES = [
    f'conv_{kernel}_h{heads}_{mode}'
    for kernel in ('simple', 'sigmoid')
    for heads in (1, 4)
    for mode in MODES
]
AS_RELEASED = {'normalize': 'global', 'weighted_degree': False}


class Reference:
    """What the released code has computed in one case."""

    def __init__(self, path, case):
        with np.load(path, allow_pickle=False) as file:
            self.values = {
                key.removeprefix(f'{case}/'): file[key].copy()
                for key in file.files
                if key.startswith(f'{case}/')
            }

    def __getitem__(self, key):
        return torch.from_numpy(self.values[key])

    def named(self, prefix):
        state = {
            key.removeprefix(prefix): self[key]
            for key in self.values
            if key.startswith(prefix)
        }
        return from_released_difformer(state)

    def layer(self):
        meta = {
            key: self.values[f'meta.{key}'].item()
            for key in ('kernel', 'heads', 'mode', 'graph_weight')
        }
        layer = DIFFormerConv(
            self.values['x'].shape[1],
            self.values['out'].shape[1],
            heads=meta['heads'],
            kernel=meta['kernel'],
            graph_weight=None
            if meta['graph_weight'] < 0
            else meta['graph_weight'],
            use_graph=meta['mode'] != 'nograph',
            **AS_RELEASED,
        ).double()
        layer.load_state_dict(self.named('param.'))
        return layer


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)


def check_layer(ref):
    layer, x = ref.layer(), ref['x'].requires_grad_()
    wanted = {'x': x}
    if 'edge_weight' in ref.values:
        wanted['edge_weight'] = ref['edge_weight'].requires_grad_()
    out = layer(x, ref['edge_index'], wanted.get('edge_weight'))
    close(out, ref['out'])
    expected = {f'{key}': ref[f'grad_{key}'] for key in wanted}
    expected |= ref.named('grad.')
    wanted |= dict(layer.named_parameters())
    grads = torch.autograd.grad(out, list(wanted.values()), ref['cotangent'])
    for key, grad in zip(wanted, grads, strict=True):
        close(grad, expected[key])
    # the same numbers, edge by edge
    handle = layer.register_propagate_forward_hook(lambda *_: None)
    close(layer(x, ref['edge_index'], wanted.get('edge_weight')), out)
    handle.remove()


@pytest.mark.parametrize(
    'case', ['conv_simple_h1_weighted', 'conv_sigmoid_h1_gw']
)
def test_committed_cases(case):
    check_layer(Reference(HERE / 'difformer.npz', case))


@pytest.mark.parametrize('case', CASES)
def test_all_cases(case, shared_root, require_file):
    path = shared_root / 'golden' / 'difformer_reference.npz'
    check_layer(Reference(require_file(path), case))


@pytest.mark.parametrize('kernel', ['simple', 'sigmoid'])
def test_models(kernel, shared_root, require_file):
    path = shared_root / 'golden' / 'difformer_reference.npz'
    ref = Reference(require_file(path), f'model_{kernel}')
    model = DIFFormer(
        20,
        16,
        5,
        num_layers=3,
        heads=2,
        kernel=kernel,
        alpha=0.4,
        **AS_RELEASED,
    ).double()
    model.load_state_dict(ref.named('param.'))
    close(model(ref['x'], ref['edge_index']), ref['out'])


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"does not know .*'convs.0.bias'"):
        from_released_difformer({'convs.0.bias': torch.ones(1)})
