import itertools

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.graphs import owners, random_graph
from torch_energy_graph.distributed import (
    ShardedDIFFormer,
    ShardedDIFFormerConv,
    ShardedGraph,
    broadcast_parameters,
    mean_share,
    sync_gradients,
)
from torch_energy_graph.nn.conv.difformer_conv import DIFFormerConv
from torch_energy_graph.nn.models.difformer import DIFFormer

CLOSE = {'rtol': 0, 'atol': 1e-10}
LAYERS = [
    {'heads': heads, 'normalize': normalize, **options}
    for heads, normalize, options in itertools.product(
        [1, 2],
        ['node', 'global'],
        [
            {},
            {'graph_weight': 0.3, 'weighted_degree': False},
            {'use_value': False, 'add_self_loops': False},
            {'use_graph': False},
        ],
    )
]
MODELS = [
    {},
    {'normalize': 'global', 'heads': 2, 'use_source': True},
    {'use_graph': False, 'use_norm': False, 'use_residual': False},
]


def part_of(data, rank, world_size):
    owner = owners(data.num_nodes, world_size, seed=1)
    return ShardedGraph.from_data(data, rank, world_size, owner)


def equal_layers(rank, world_size, weighted):
    data = random_graph(23, 60)
    if not weighted:
        del data.edge_weight
    for options in LAYERS:
        check_layer(data, rank, world_size, options)


def check_layer(data, rank, world_size, options):
    torch.manual_seed(0)
    conv = DIFFormerConv(3, 3, **options).double()
    sharded = ShardedDIFFormerConv(conv)
    if data.edge_weight is None:  # the same, without the float32 rounding
        conv.weighted_degree = True
    graph = part_of(data, rank, world_size)
    uses_graph = options.get('use_graph', True)

    inputs = [data.x.clone().requires_grad_()]
    if uses_graph and data.edge_weight is not None:
        inputs.append(data.edge_weight.clone().requires_grad_())
    mine = [
        t.detach()[at].requires_grad_()
        for t, at in zip(inputs, [graph.n_id, graph.edge_id], strict=False)
    ]
    weight = torch.arange(1, 24)[:, None]
    expected = conv(inputs[0], data.edge_index, *inputs[1:])
    (expected.pow(3) * weight).sum().backward()
    whole = [p.grad for p in conv.parameters()]

    conv.zero_grad()
    out = sharded(mine[0], graph, *mine[1:])
    torch.testing.assert_close(out, expected[graph.n_id], **CLOSE)
    (out.pow(3) * weight[graph.n_id]).sum().backward()
    sync_gradients(sharded)
    for p, other in zip(sharded.parameters(), whole, strict=True):
        torch.testing.assert_close(p.grad, other, **CLOSE)
    ids = [graph.n_id, graph.edge_id]
    for t, other, at in zip(mine, inputs, ids, strict=False):
        torch.testing.assert_close(t.grad, other.grad[at], **CLOSE)


def second_derivatives(rank, world_size):
    data = random_graph(23, 60)
    graph = part_of(data, rank, world_size)
    torch.manual_seed(0)
    conv = DIFFormerConv(3, 2, heads=2).double()
    sharded = ShardedDIFFormerConv(conv)

    def penalty(out, x):
        (grad,) = torch.autograd.grad(out.pow(2).sum(), x, create_graph=True)
        return grad.pow(2).sum()

    x = data.x.requires_grad_()
    out = conv(x, data.edge_index, data.edge_weight)
    penalty(out, x).backward()
    expected = [p.grad for p in conv.parameters() if p.grad is not None]

    conv.zero_grad()
    part = graph.data.x.requires_grad_()
    penalty(sharded(part, graph), part).backward()
    sync_gradients(sharded)
    torch.testing.assert_close(part.grad, x.grad[graph.n_id], **CLOSE)
    ours = [p.grad for p in sharded.parameters() if p.grad is not None]
    for grad, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(grad, other, **CLOSE)


def models_of(options):
    torch.manual_seed(0)
    model = DIFFormer(3, 8, 2, **options).double()
    sharded = ShardedDIFFormer(3, 8, 2, **options).double()
    sharded.load_state_dict(model.state_dict())
    return model, sharded


def loss_of(out, y):
    return torch.nn.functional.cross_entropy(out, y, reduction='none')


def train(model, loss, sync=lambda: None, steps=5):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        sync()
        optimizer.step()


def equal_training(rank, world_size, options):
    data = random_graph(23, 60)
    # with two ranks, one has no training node
    data.train_mask = owners(23, world_size, seed=1) != 0
    data.train_mask[:3] &= world_size == 2
    model, sharded = models_of(options)
    graph = part_of(data, rank, world_size)
    torch.testing.assert_close(
        sharded(graph.data.x, graph),
        model(data.x, data.edge_index, data.edge_weight)[graph.n_id],
        **CLOSE,
    )

    def whole_loss():
        out = model(data.x, data.edge_index, data.edge_weight)
        return loss_of(out, data.y)[data.train_mask].mean()

    def share():
        values = loss_of(sharded(graph.data.x, graph), graph.data.y)
        return mean_share(values[graph.data.train_mask])

    train(model, whole_loss)
    train(sharded, share, lambda: sync_gradients(sharded))
    ours = sharded.state_dict()
    for name, other in model.state_dict().items():
        torch.testing.assert_close(ours[name], other, **CLOSE)


def data_parallel(rank, world_size):
    """DDP averages the gradients: the share is multiplied by its ranks."""
    data = random_graph(23, 60)
    model, sharded = models_of({})
    graph = part_of(data, rank, world_size)
    wrapped = DistributedDataParallel(sharded)

    def whole_loss():
        out = model(data.x, data.edge_index, data.edge_weight)
        return loss_of(out, data.y).mean()

    def share():
        values = loss_of(wrapped(graph.data.x, graph), graph.data.y)
        return mean_share(values) * world_size

    train(model, whole_loss)
    train(wrapped, share)
    ours = sharded.state_dict()
    for name, other in model.state_dict().items():
        torch.testing.assert_close(ours[name], other, **CLOSE)


def half_types(rank, world_size):
    data = random_graph(300, 2000)
    torch.manual_seed(0)
    exact, sharded = models_of({'heads': 2})
    expected = exact(data.x, data.edge_index, data.edge_weight)
    graph = part_of(data, rank, world_size)
    for dtype, tolerance in (
        (torch.float32, 1e-5),
        (torch.float16, 5e-3),
        (torch.bfloat16, 5e-2),
    ):
        out = sharded.to(dtype)(graph.data.x.to(dtype), graph)
        assert out.dtype == dtype
        error = (out.double() - expected[graph.n_id]).norm()
        assert error <= tolerance * expected[graph.n_id].norm()


def lazy_widths(rank, world_size):
    data = random_graph(23, 60)
    graph = part_of(data, rank, world_size)
    torch.manual_seed(rank)
    sharded = ShardedDIFFormer(-1, 4, 2).double()
    with torch.no_grad():
        sharded(graph.data.x, graph)
    broadcast_parameters(sharded)
    model = DIFFormer(3, 4, 2).double()
    model.load_state_dict(sharded.state_dict())
    out = sharded(graph.data.x, graph)
    whole = model(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(graph.whole(out), whole, **CLOSE)


def refusals(rank, world_size):
    data = random_graph(9, 20)
    graph = part_of(data, rank, world_size)
    _, model = models_of({})
    with pytest.raises(TypeError, match="a 'ShardedGraph' \\(got Tensor\\)"):
        model(graph.data.x, graph.edge_index)
    with pytest.raises(TypeError, match='got NoneType'):
        model(graph.data.x)
    with pytest.raises(ValueError, match='expects one graph'):
        model(graph.data.x, graph, batch=graph.data.y)
    other = part_of(data, 0, world_size + 1)
    with pytest.raises(ValueError, match='cut for another number of ranks'):
        model(other.data.x, other)


@pytest.mark.parametrize('weighted', [True, False])
@pytest.mark.parametrize('world_size', [2, 3])
def test_layers_equal_one_process(ranks, world_size, weighted):
    ranks.run(world_size, equal_layers, weighted)


@pytest.mark.parametrize('options', MODELS, ids=str)
@pytest.mark.parametrize('world_size', [2, 3])
def test_training_equals_one_process(ranks, world_size, options):
    ranks.run(world_size, equal_training, options)


@pytest.mark.parametrize('world_size', [2, 3])
@pytest.mark.parametrize(
    'check', [second_derivatives, data_parallel, half_types, lazy_widths]
)
def test_model(ranks, world_size, check):
    ranks.run(world_size, check)


def test_refusals(ranks):
    ranks.run(2, refusals)


def test_no_moments_without_the_simple_kernel():
    with pytest.raises(ValueError, match="expects kernel 'simple'"):
        ShardedDIFFormer(3, 4, 2, kernel='sigmoid')
