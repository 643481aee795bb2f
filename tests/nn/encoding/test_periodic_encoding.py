import math

import pytest
import torch

from torch_energy_graph.nn import PeriodicEncoding


def test_the_formula():
    torch.manual_seed(0)
    layer = PeriodicEncoding(2, channels=3, num_frequencies=4).double()
    x = torch.randn(5, 2, dtype=torch.double)
    out = layer(x)
    assert out.shape == (5, 6)
    for n in range(5):
        for f in range(2):
            v = [2 * math.pi * c * float(x[n, f])
                 for c in layer.frequency[f].tolist()]  # fmt: skip
            waves = [math.sin(a) for a in v] + [math.cos(a) for a in v]
            z = layer.weight[f].T @ torch.tensor(waves, dtype=torch.double)
            expected = (z + layer.bias[f]).clamp(min=0)
            found = out[n, 3 * f : 3 * f + 3]
            torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_gradients_and_reset():
    torch.manual_seed(0)
    layer = PeriodicEncoding(2, channels=2, num_frequencies=3).double()
    x = torch.randn(3, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))
    layer(x).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in layer.parameters())
    torch.manual_seed(0)
    layer.reset_parameters()
    first = layer(x)
    torch.manual_seed(0)
    layer.reset_parameters()
    assert torch.equal(first, layer(x))
    assert repr(layer) == (
        'PeriodicEncoding(2, channels=2, num_frequencies=3)'
    )


def test_errors():
    with pytest.raises(ValueError, match='sigma > 0'):
        PeriodicEncoding(2, sigma=0.0)
    with pytest.raises(ValueError, match=r'shape \[N, 2\] \(got \[4, 3\]\)'):
        PeriodicEncoding(2)(torch.zeros(4, 3))
