import pytest
import torch
import torch.distributed as dist

from torch_energy_graph.distributed import (
    all_reduce_sum,
    broadcast_parameters,
    mean_share,
    sync_gradients,
)

# items of every rank: a plain mean of means would be wrong
SIZES = {2: [1, 6], 3: [4, 0, 3]}


class TwoMaps(torch.nn.Module):
    """Rank 0 alone uses the second map, nobody the third."""

    def __init__(self):
        super().__init__()
        gen = torch.Generator().manual_seed(0)
        for name in 'abc':
            weight = torch.randn(3, generator=gen).double()
            setattr(self, name, torch.nn.Parameter(weight))

    def forward(self, x, with_b):
        out = (x * self.a).sin().sum(-1)
        return out * (1 + self.b.sum()) if with_b else out


def gradient_of_the_mean(rank, world_size):
    gen = torch.Generator().manual_seed(1)
    x = torch.randn(7, 3, generator=gen).double().split(SIZES[world_size])
    model = TwoMaps()
    values = [model(part, r == 0) for r, part in enumerate(x)]
    mean = torch.cat(values).mean()
    mean.backward()
    expected = [p.grad for p in model.parameters()]

    model.zero_grad()
    share = mean_share(model(x[rank], rank == 0))
    total = all_reduce_sum(share.detach())
    torch.testing.assert_close(total, mean, rtol=0, atol=1e-14)
    share.backward()
    sync_gradients(model)
    ours = [p.grad for p in model.parameters()]
    assert ours[2] is None
    assert expected[2] is None
    for grad, other in zip(ours[:2], expected[:2], strict=True):
        torch.testing.assert_close(grad, other, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match='training mask'):
        mean_share(torch.ones(0))


def half_gradients(rank, world_size):
    layer = torch.nn.Linear(1, 1, bias=False, dtype=torch.half)
    layer.weight.grad = torch.full_like(layer.weight, 1 if rank else 2048)
    sync_gradients(layer)
    # the 16-bit number after 2048 is 2050
    assert layer.weight.grad.item() == {2: 2048, 3: 2050}[world_size]
    assert layer.weight.grad.dtype == torch.half
    sync_gradients(torch.nn.ReLU())


def equal_parameters(rank, world_size):
    torch.manual_seed(rank)
    module = torch.nn.BatchNorm1d(4)
    torch.nn.init.normal_(module.weight)
    module.running_mean.fill_(rank)
    broadcast_parameters(module)
    torch.manual_seed(0)
    weight = torch.nn.init.normal_(torch.empty(4))
    assert module.weight.tolist() == weight.tolist()
    assert module.running_mean.tolist() == [0] * 4


def lazy_parameters(rank, world_size):
    with pytest.raises(ValueError, match='run the module once'):
        broadcast_parameters(torch.nn.LazyLinear(3))


def inside_a_smaller_group(rank, world_size):
    """Ranks 1 and 2 of three work together; rank 0 is elsewhere."""
    group = dist.new_group([1, 2])
    if rank == 0:
        return
    assert all_reduce_sum(torch.tensor(rank), group).item() == 3
    module = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(module.weight, rank)
    broadcast_parameters(module, group)
    assert module.weight.item() == 1
    module.weight.grad = torch.full_like(module.weight, rank)
    sync_gradients(module, group)
    assert module.weight.grad.item() == 3
    assert mean_share(torch.ones(rank), group).item() == pytest.approx(
        rank / 3
    )


@pytest.mark.parametrize('world_size', [2, 3])
@pytest.mark.parametrize(
    'check', [gradient_of_the_mean, half_gradients, equal_parameters]
)
def test_training_helpers(ranks, world_size, check):
    ranks.run(world_size, check)


def test_lazy_parameters(ranks):
    ranks.run(2, lazy_parameters)


def test_a_group_of_some_ranks(ranks):
    ranks.run(3, inside_a_smaller_group)
