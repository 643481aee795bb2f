import pytest
import torch

from torch_energy_graph.distributed import all_reduce_sum, exchange_rows

# what rank r sends to rank s
TABLES = {2: [[1, 3], [0, 2]], 3: [[0, 2, 1], [0, 0, 0], [3, 0, 1]]}


def parts_of(*shape, world_size, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return [
        torch.randn(*shape, generator=gen).double().requires_grad_()
        for _ in range(world_size)
    ]


def sum_over_ranks(rank, world_size):
    parts = parts_of(4, world_size=world_size)
    weight = [0.5 + r for r in range(world_size)]

    total = sum(x.sin() for x in parts)
    losses = [(w * total.pow(3)).sum() for w in weight]
    grads = torch.autograd.grad(sum(losses), parts, create_graph=True)
    penalty = sum(losses) + sum(grad.square().sum() for grad in grads)
    expected = torch.autograd.grad(penalty, parts[rank])[0]

    x = parts[rank].detach().requires_grad_()
    out = all_reduce_sum(x.sin())
    torch.testing.assert_close(out, total, rtol=0, atol=1e-14)
    loss = (weight[rank] * out.pow(3)).sum()
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    torch.testing.assert_close(grad, grads[rank], rtol=0, atol=1e-12)
    (loss + grad.square().sum()).backward()
    torch.testing.assert_close(x.grad, expected, rtol=0, atol=1e-10)


def rows_by_table(rank, world_size):
    table = TABLES[world_size]
    rows = [
        100.0 * r + torch.arange(2.0 * sum(sent)).double().view(-1, 2)
        for r, sent in enumerate(table)
    ]
    received = [sent[rank] for sent in table]
    expected = torch.cat(
        [x.split(sent)[rank] for x, sent in zip(rows, table, strict=True)]
    )
    x = rows[rank].requires_grad_()
    out = exchange_rows(x, table[rank], received)
    assert out.tolist() == expected.tolist()

    # the loss of rank s weighs its rows with s + 1
    (grad,) = torch.autograd.grad(
        (rank + 1) * out.square().sum(), x, create_graph=True
    )
    weight = torch.arange(1, world_size + 1).repeat_interleave(
        torch.tensor(table[rank])
    )
    expected = 2 * weight[:, None] * x
    torch.testing.assert_close(grad, expected, rtol=0, atol=0)
    grad.sum().backward()
    second = (2.0 * weight[:, None]).expand_as(x).double()
    assert x.grad.tolist() == second.tolist()

    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        half = exchange_rows(x.detach().to(dtype), table[rank], received)
        assert half.dtype == dtype
        assert half.tolist() == out.detach().to(dtype).tolist()


def refuse_wrong_counts(rank, world_size):
    with pytest.raises(ValueError, match='cut for another number of ranks'):
        exchange_rows(torch.ones(1, 2), [1], [1])


@pytest.mark.parametrize('world_size', [2, 3])
@pytest.mark.parametrize('check', [sum_over_ranks, rows_by_table])
def test_values_and_two_derivatives(ranks, world_size, check):
    ranks.run(world_size, check)


def test_counts_for_another_world(ranks):
    ranks.run(2, refuse_wrong_counts)


def test_without_a_process_group():
    with pytest.raises(RuntimeError, match='started by torchrun'):
        all_reduce_sum(torch.ones(1))
