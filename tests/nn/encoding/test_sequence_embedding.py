import pytest
import torch
import torch.nn.functional as F

from torch_energy_graph.nn.encoding.sequence_embedding import (
    SequenceEmbedding,
)


def build(**kwargs):
    torch.manual_seed(0)
    layer = SequenceEmbedding(7, num_symbols=5, **kwargs).double()
    torch.nn.init.normal_(layer.conv.bias)
    return layer


def by_definition(layer, symbols):
    """One sequence, one position after the other."""
    size, weight = len(symbols), layer.conv.weight  # [C, A + 3, K]
    rows = []
    for t, symbol in enumerate(symbols):
        place = t / max(size - 1, 1)
        places = [1 - 2 * place, 1 - abs(2 * place - 1), 2 * place - 1]
        hot = [float(symbol == a) for a in range(layer.num_symbols)]
        rows.append(hot + [max(p, 0.0) for p in places])
    x = torch.tensor(rows, dtype=torch.double)
    half = weight.size(-1) // 2
    outs = []
    for t in range(size):
        out = layer.conv.bias
        for k in range(-half, half + 1):
            if 0 <= t + k < size:
                out = out + weight[:, :, k + half] @ x[t + k]
        outs.append(F.selu(out))
    return torch.stack(outs).amax(0)


@pytest.mark.parametrize('kernel_size', [1, 5])
def test_equals_the_definition(kernel_size):
    layer = build(kernel_size=kernel_size)
    sequences = [[0, 4, 1, 1, 2, 3], [2], [3, 0, 0], [4, 4]]
    symbols = torch.tensor([s + [-1] * (8 - len(s)) for s in sequences])
    expected = torch.stack([by_definition(layer, s) for s in sequences])
    torch.testing.assert_close(layer(symbols), expected)
    narrow = layer(symbols[:, :6].to(torch.int8))
    torch.testing.assert_close(narrow, expected)


def test_empty_sequences_give_zeros_and_no_gradient():
    layer = build()
    symbols = torch.tensor([[-1, -1, -1], [1, -1, -1]])
    out = layer(symbols)
    assert (out[0] == 0).all()
    out[0].sum().backward(retain_graph=True)
    assert all((p.grad == 0).all() for p in layer.parameters())
    out[1].sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    assert layer(symbols[:0]).shape == (0, 7)


def test_wrong_arguments():
    with pytest.raises(ValueError, match='odd kernel_size'):
        SequenceEmbedding(kernel_size=4)
    with pytest.raises(ValueError, match=r'integers of shape \[N, L\]'):
        build()(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r'got \[3\]'):
        build()(torch.zeros(3, dtype=torch.long))
