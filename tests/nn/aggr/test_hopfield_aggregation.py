import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric.nn import GCNConv, MultiAggregation, SimpleConv

from torch_energy_graph.energies.retrieval import (
    hopfield_associate,
    hopfield_retrieve,
)
from torch_energy_graph.energies.separation import SEPARATIONS
from torch_energy_graph.nn.aggr import HopfieldAggregation, HopfieldPooling

SIZES = [5, 0, 1, 130, 3]  # an empty set, and one of several tiles
CONFIGS = [
    {},
    {'num_states': 2, 'heads': 2, 'steps': 3, 'beta': 'learn'},
    {'heads': 4, 'hidden_channels': 12, 'value_channels': 8, 'norm': False},
    {'heads': 2, 'steps': 2, 'beta': [0.3, 2.0], 'bias': False},
    {'num_states': 3, 'steps': 2, 'separation': 'entmax15', 'concat': False},
    {'heads': 2, 'steps': 2, 'separation': 'softmax1'},
]


def build(config, seed=0, **more):
    torch.manual_seed(seed)
    layer = HopfieldAggregation(8, 6, **config, **more).double()
    with torch.no_grad():  # norms and biases that do something
        for weight in layer.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return layer


def bags(sizes=SIZES, channels=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    x = torch.randn(
        index.size(0), channels, generator=generator, dtype=torch.double
    )
    perm = torch.randperm(index.size(0), generator=generator)
    return x, index, ptr, perm


def by_definition(layer, x, index, num_sets):
    """Keys and values of every element, one set after the other."""
    maps, outs = layer.maps, []
    for number in range(num_sets):
        elements = x[index == number]
        if elements.size(0) == 0:
            outs.append(x.new_zeros(layer.num_states, layer.out_channels))
            continue
        state = maps.states(layer.states).transpose(0, 1)  # [H, S, d]
        keys = maps.stored(elements).transpose(0, 1)
        values = maps.values(elements, keys).transpose(0, 1)
        beta = torch.as_tensor(maps.beta(), dtype=x.dtype)
        beta = beta.expand(layer.heads).unsqueeze(-1)
        for _ in range(layer.steps - 1):
            state = hopfield_retrieve(
                state, keys, beta, separation=layer.separation
            )
        # values stand for patterns in the last association
        _, weights = hopfield_associate(
            state, keys, beta, separation=layer.separation
        )
        outs.append(maps.out((weights @ values).transpose(0, 1)))
    out = torch.stack(outs)
    return out.flatten(1) if layer.concat else out.mean(1)


@pytest.mark.parametrize('config', CONFIGS)
def test_equals_the_definition_in_any_layout(config):
    layer = build(config)
    x, index, ptr, perm = bags()
    x.requires_grad_()
    expected = by_definition(layer, x, index, len(SIZES))
    inputs = [x, *layer.parameters()]
    grads = torch.autograd.grad(expected.square().sum(), inputs)
    for out in (
        layer(x, index),
        layer(x, ptr=ptr),
        layer(x, index, ptr=ptr),
        layer(x[perm], index[perm], dim_size=len(SIZES)),
    ):
        torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-11)
        actual = torch.autograd.grad(out.square().sum(), inputs)
        torch.testing.assert_close(actual, grads, rtol=1e-9, atol=1e-10)


def test_shapes_names_and_alias():
    layer = HopfieldAggregation(8, 6, num_states=3, heads=2)
    assert HopfieldPooling is HopfieldAggregation
    assert layer.energy_contract == 'retrieval'
    assert str(layer) == (
        'HopfieldAggregation(8, 6, num_states=3, heads=2, steps=1)'
    )
    assert layer(torch.randn(4, 8)).shape == (1, 18)  # one set
    mean = HopfieldAggregation(8, num_states=3, concat=False)
    assert mean(torch.randn(4, 8)).shape == (1, 8)


def test_empty_sets_give_zeros_and_finite_gradients():
    layer = build(CONFIGS[1])
    x, index, *_ = bags()
    x.requires_grad_()
    out = layer(x, index, dim_size=9)
    assert (out[1] == 0).all()
    assert (out[5:] == 0).all()
    assert (out[[0, 2, 3, 4]].abs().sum(1) > 0).all()
    out.sum().backward()
    assert x.grad.isfinite().all()
    assert layer(x[:0], index[:0], dim_size=2).tolist() == [[0.0] * 12] * 2
    assert layer(x[:0], index[:0]).shape == (0, 12)


@pytest.mark.parametrize('config', CONFIGS[:2])
def test_sets_do_not_influence_each_other(config):
    layer = build(config, **({'tol': 1e-3} if 'steps' in config else {}))
    x, index, *_ = bags()
    together = layer(x, index)
    for number, size in enumerate(SIZES):
        alone = layer(x[index == number], index[:size] * 0, dim_size=1)
        torch.testing.assert_close(together[number], alone[0])


def test_weights_of_sets_sum_to_one():
    layer = build({'num_states': 2, 'heads': 2, 'steps': 2})
    x, index, _, perm = bags()
    _, alpha = layer(x[perm], index[perm], return_attention_weights=True)
    assert alpha.shape == (x.size(0), 2, 2)
    total = torch.zeros(5, 2, 2).double().index_add(0, index[perm], alpha)
    expected = torch.ones(5, 2, 2).double()
    expected[1] = 0
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize('separation', SEPARATIONS)
def test_updates_descend_on_the_energy(separation):
    layer = build({'num_states': 2, 'heads': 2, 'separation': separation})
    x, index, *_ = bags()
    energies = []
    for steps in range(1, 6):
        layer.steps = steps
        energies.append(layer.energy(x, index, reduction='state'))
        total = layer.energy(x, index)
        torch.testing.assert_close(total, energies[-1].sum((1, 2)))
    falls = torch.stack(energies).diff(dim=0)  # [4, B, S, H]
    assert (falls < 1e-12).all()
    assert (falls[0, 3] < -1e-6).any()
    assert (energies[-1] >= 0).all()
    assert (energies[-1][1] == 0).all()  # the empty set


def test_update_is_the_gradient_step():
    layer = build({'num_states': 2, 'heads': 2, 'beta': 'learn'})
    x, index, *_ = bags()
    found = layer.association(x, index)
    state = found.step(found.state).detach().requires_grad_()
    (slope,) = torch.autograd.grad(found.energy(state).sum(), state)
    torch.testing.assert_close(found.step(state), state - slope)


def test_double_backward_with_index_and_ptr():
    layer = build({'num_states': 2, 'heads': 2, 'steps': 2, 'beta': 'learn'})
    x, index, ptr, _ = bags([3, 0, 2], seed=1)
    x.requires_grad_()
    for sets in ({'index': index, 'dim_size': 3}, {'ptr': ptr}):
        assert torch.autograd.gradgradcheck(
            lambda x, sets=sets: layer(x, **sets), x, fast_mode=True
        )


@pytest.mark.parametrize('top_k', [4, 0.1])
def test_top_k_is_the_layer_on_the_best(top_k):
    config = {'num_states': 2, 'heads': 2, 'steps': 2}
    layer, best = build(config), build(config, top_k=top_k)
    best.load_state_dict(layer.state_dict())
    best.chunk_size = 7  # many chunks, the last one smaller
    x, index, _, perm = bags()
    x, index = x[perm], index[perm]
    first = copy.deepcopy(layer)
    first.steps = 1
    _, alpha = first(x, index, return_attention_weights=True)
    kept = []
    for number, size in enumerate(SIZES):
        rows = (index == number).nonzero().view(-1)
        count = min(4, size) if top_k == 4 else -(-size // 10)
        order = alpha[rows].amax((1, 2)).argsort(descending=True)
        kept.append(rows[order[:count]])
    kept = torch.cat(kept)
    x.requires_grad_()
    out, weights = best(x, index, return_attention_weights=True)
    expected = layer(x[kept], index[kept], dim_size=5)
    torch.testing.assert_close(out, expected)
    used = weights.sum((1, 2)) > 0
    assert used.nonzero().view(-1).equal(kept.sort().values)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert (grad[~used] == 0).all()
    torch.testing.assert_close(
        best.energy(x, index), layer.energy(x[kept], index[kept], dim_size=5)
    )


def test_tol_stops_every_state_by_itself():
    layer = build({'num_states': 2, 'heads': 2, 'steps': 200, 'beta': 4.0})
    x, index, *_ = bags()
    exact = layer(x, index)
    layer.tol = 1e-9
    torch.testing.assert_close(layer(x, index), exact, rtol=1e-6, atol=1e-7)
    layer.tol = 1e9  # after one update all are final
    early, layer.tol, layer.steps = layer(x, index), None, 2
    torch.testing.assert_close(early, layer(x, index))
    assert not torch.allclose(early, exact)


def test_dropout_drops_weights_in_training_only():
    layer = build({}, dropout=0.5)
    x, index, *_ = bags()
    torch.manual_seed(0)
    first = layer(x, index)
    assert not torch.allclose(first, layer(x, index))
    layer.eval()
    assert layer(x, index).equal(layer(x, index))


@given(
    sizes=st.lists(st.integers(0, 70), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
@settings(max_examples=10)
def test_drawn_sets(sizes, seed):
    layer = build(CONFIGS[1])
    x, index, _, perm = bags(sizes, seed=seed)
    out = layer(x[perm], index[perm], dim_size=len(sizes))
    expected = by_definition(layer, x, index, len(sizes))
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ('dtype', 'tolerance'),
    [(torch.float32, 1e-5), (torch.bfloat16, 6e-2), (torch.float16, 1e-2)],
)
def test_types(dtype, tolerance):
    layer = build({'heads': 2, 'steps': 2}).to(dtype)
    x, index, *_ = bags()
    out = layer(x.to(dtype), index)
    assert out.dtype == dtype
    exact = copy.deepcopy(layer).double()(x.to(dtype).double(), index)
    scale = exact.abs().max()
    assert (out.double() - exact).abs().max() <= tolerance * scale


def test_autocast():
    layer = build({'heads': 2, 'steps': 2}).float()
    x, index, *_ = bags()
    with torch.autocast('cpu', dtype=torch.bfloat16):
        out = layer(x.float(), index)
    out.float().sum().backward()
    exact = copy.deepcopy(layer).double()(x.float().double(), index)
    assert (out - exact).abs().max() <= 6e-2 * exact.abs().max()


def test_copies_and_state_dicts():
    layer = build({'heads': 2, 'beta': 'learn'})
    x, index, *_ = bags()
    other = build({'heads': 2, 'beta': 'learn'}, seed=1)
    other.load_state_dict(layer.state_dict())
    for same in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert same(x, index).equal(layer(x, index))
    assert other(x, index).equal(layer(x, index))


def test_exports_for_several_sizes():
    layer = build({'heads': 2, 'steps': 2}).float()
    x, index, *_ = bags([3, 4])
    program = torch.export.export(
        layer,
        (x.float(),),
        {'index': index, 'dim_size': 2},
        dynamic_shapes={
            'x': {0: torch.export.Dim.DYNAMIC},
            'index': {0: torch.export.Dim.DYNAMIC},
            'dim_size': None,
        },
    )
    x, index, *_ = bags([70, 1])
    out = program.module()(x.float(), index=index, dim_size=2)
    torch.testing.assert_close(out, layer(x.float(), index))


def test_compiles_for_several_sizes():
    layer = build({'heads': 2, 'steps': 2}).float()
    torch._dynamo.reset()
    compiled = torch.compile(
        layer, fullgraph=True, backend='aot_eager', dynamic=True
    )
    for sizes in ([3, 4], [70, 1]):
        x, index, *_ = bags(sizes)
        x = x.float()
        out = compiled(x, index, dim_size=2)
        torch.testing.assert_close(out, layer(x, index, dim_size=2))


def test_in_hosts_of_pyg():
    x = torch.randn(5, 8)
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 0, 0, 2, 2]])
    layer = HopfieldAggregation(8, heads=2)
    out = SimpleConv(aggr=layer)(x, edge_index)
    expected = layer(x[edge_index[0]], edge_index[1], dim_size=5)
    torch.testing.assert_close(out, expected)
    assert GCNConv(8, 8, aggr=layer)(x, edge_index).shape == (5, 8)
    both = MultiAggregation([layer, 'mean'])
    assert both(x, edge_index[1]).shape == (3, 16)


def test_untrained_states_and_reset():
    layer = HopfieldAggregation(4, trainable=False)
    assert not layer.states.requires_grad
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    layer.reset_parameters()
    assert not before['states'].equal(layer.states)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'steps': 0}, 'steps >= 1'),
        ({'tol': 0.1}, 'give more steps'),
        ({'separation': 'hardmax'}, 'separation to be one of'),
        ({'num_states': 0}, 'num_states >= 1'),
        ({'heads': 3, 'hidden_channels': 8}, 'multiple of 3'),
        ({'beta': -1.0}, "'beta' must be a finite number > 0"),
        ({'beta': [1.0, 2.0]}, 'for each of the 1 heads'),
        ({'top_k': 0}, 'top_k to be'),
        ({'top_k': 1.5}, 'top_k to be'),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        HopfieldAggregation(8, **options)


def test_wrong_inputs():
    layer, index = HopfieldAggregation(8), torch.tensor([0, 0, 1])
    with pytest.raises(ValueError, match=r'shape \[N, 8\]'):
        layer(torch.randn(3, 7), index)
    with pytest.raises(ValueError, match='two-dimensional'):
        layer(torch.randn(2, 3, 8), index)
    with pytest.raises(ValueError, match=r'graph of every node, \[3\]'):
        layer(torch.randn(3, 8), index[:2])
    with pytest.raises(ValueError, match='only 1'):
        layer(torch.randn(3, 8), index, dim_size=1)
    with pytest.raises(ValueError, match="'graph' or 'state'"):
        layer.energy(torch.randn(3, 8), index, reduction='node')
