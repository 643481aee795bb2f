"""Every check catches the layer that breaks its promise."""

import pytest
import torch
from torch.nn import Parameter

from torch_geometric.nn import GCNConv, SAGEConv

from torch_energy_graph.testing import ContractError, check_conv, conv_checks

COMPILE = {'compiles', 'compiles_dynamic', 'exports'}
NOT_OURS = {'graph_cache', 'attention_explainer', 'sparse_csc'}


def run(name, factory, profile='conv'):
    dict(conv_checks(profile))[name](factory)


class Scale(torch.nn.Module):
    """A good layer without edges."""

    def __init__(self, channels):
        super().__init__()
        self.channels = channels
        self.weight = Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self):
        torch.nn.init.normal_(self.weight)

    def forward(self, x):
        return x * self.weight

    def __repr__(self):
        return f'{self.__class__.__name__}({self.channels})'


def test_a_good_layer_passes():
    check_conv(Scale, 'node')


class WrongShape(Scale):
    def forward(self, x):
        return super().forward(x)[:, 1:]


class NoRepr(Scale):
    __repr__ = torch.nn.Module.__repr__


class PositionDependent(Scale):
    def forward(self, x):
        return super().forward(x) * (1 + torch.arange(x.size(0))).view(-1, 1)


class EmptyIsNaN(Scale):
    def forward(self, x):
        return super().forward(x) / x.abs().sum().sign() * x.new_tensor(1.0)


class Float32Only(Scale):
    def forward(self, x):
        return x.float() * self.weight.float()


class InnerAutograd(Scale):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = (x.square() * self.weight).sum() / 2
            return torch.autograd.grad(energy, x, create_graph=True)[0]


class ReadsValues(Scale):
    def forward(self, x):
        return super().forward(x if x.sum() > 100 else x + 1)


class FixedSize(Scale):
    def forward(self, x):
        return super().forward(x) * (2 if x.size(0) == 12 else 1)


class LambdaAttribute(Scale):
    def __init__(self, channels):
        super().__init__(channels)
        self.act = lambda x: x


class HiddenWeight(Scale):
    def __init__(self, channels):
        super().__init__(channels)
        self.hidden = torch.randn(channels)

    def forward(self, x):
        return super().forward(x) + self.hidden


class CutGradient(Scale):
    def forward(self, x):
        return x.detach() * self.weight + x * 0


class ForgetsReset(Scale):
    def __init__(self, channels):
        super().__init__(channels)
        self.bias = Parameter(torch.zeros(channels))

    def forward(self, x):
        return super().forward(x) + self.bias


class Noisy(Scale):
    def forward(self, x):
        return super().forward(x) + torch.randn_like(x)


@pytest.mark.parametrize(
    ('name', 'factory'),
    [
        ('shape_and_repr', WrongShape),
        ('shape_and_repr', NoRepr),
        ('node_permutation', PositionDependent),
        ('dtypes', Float32Only),
        ('grad_modes', InnerAutograd),
        ('compiles', ReadsValues),
        ('compiles_dynamic', FixedSize),
        ('exports', FixedSize),
        ('copies', LambdaAttribute),
        ('state_dict', HiddenWeight),
        ('gradients', CutGradient),
        ('reset_parameters', ForgetsReset),
        ('deterministic_eval', Noisy),
    ],
)
def test_a_broken_layer_is_caught(name, factory):
    with pytest.raises(ContractError, match=f"check '{name}': "):
        run(name, factory, 'node')


class LastEdgeWins(GCNConv):
    def forward(self, x, edge_index):
        out = super().forward(x, edge_index)
        if isinstance(edge_index, torch.Tensor) and edge_index.numel():
            out = out + edge_index.flatten()[0]
        return out


class MeanOfNothing(SAGEConv):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) / min(edge_index.size(1), 1)


class NoTuples(GCNConv):
    def forward(self, x, edge_index):
        return super().forward(x + 0, edge_index)


class NotLazy(GCNConv):
    def __init__(self, in_channels, out_channels):
        super().__init__(abs(in_channels), out_channels)


@pytest.mark.parametrize(
    ('name', 'factory'),
    [
        ('edge_order', LastEdgeWins),
        ('degenerate_graphs', MeanOfNothing),
        ('bipartite', NoTuples),
        ('lazy_channels', NotLazy),
        ('graph_cache', GCNConv),
        ('attention_explainer', GCNConv),
        ('sparse_csc', GCNConv),
    ],
)
def test_a_broken_conv_is_caught(name, factory):
    with pytest.raises(ContractError, match=f"check '{name}': "):
        run(name, factory)


def test_all_failures_are_reported_at_once():
    skip = {name for name, _ in conv_checks('node')} - {
        'shape_and_repr',
        'deterministic_eval',
        'state_dict',
    }

    class Broken(Noisy):
        def forward(self, x):
            return super().forward(x)[1:]

    with pytest.raises(ContractError) as caught:
        check_conv(Broken, 'node', skip=skip)
    lines = str(caught.value).splitlines()
    assert [line.split("'")[1] for line in lines] == [
        'shape_and_repr',
        'state_dict',
        'deterministic_eval',
    ]


def test_skipped_checks_do_not_run():
    check_conv(GCNConv, skip=NOT_OURS | COMPILE)


def test_checks_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    check_conv(GCNConv, skip=NOT_OURS | COMPILE)
    assert torch.equal(before, torch.get_rng_state())


def test_unknown_names():
    with pytest.raises(ValueError, match=r"'profile' must be one of"):
        conv_checks('pooling')
    with pytest.raises(ValueError, match=r"'skip' expects checks .*'speed'"):
        check_conv(GCNConv, skip=['speed'])


def test_profiles_are_nested():
    names = {
        profile: {name for name, _ in conv_checks(profile)}
        for profile in ('conv', 'field', 'node')
    }
    assert names['node'] < names['field'] < names['conv']
    assert names['conv'] - names['field'] == {'lazy_channels', 'basic_gnn'}
