from dataclasses import replace

import pytest
import torch

from torch_energy_graph.datasets import (
    TemporalSignal,
    scaled_parts,
    sliding_windows,
)
from torch_energy_graph.nn.models.temporal_difformer import TemporalDIFFormer
from torch_energy_graph.train.temporal import (
    fit_forecaster,
    forecast,
    mean_squared_error,
)
from torch_energy_graph.train.temporal_baselines import (
    constant_forecast,
    last_value_forecast,
    linear_forecast,
)


def ring(num_steps=60, num_nodes=5):
    """Every value is 0.9 of its neighbour's last one, plus noise."""
    gen = torch.Generator().manual_seed(0)
    signal = torch.randn(num_steps, num_nodes, generator=gen)
    for step in range(1, num_steps):
        signal[step] += 0.9 * signal[step - 1].roll(1)
    nodes = torch.arange(num_nodes)
    edge_index = torch.stack([nodes, nodes.roll(-1)])  # i to i + 1
    return TemporalSignal('ring', signal, edge_index)


def targets(windows):
    return torch.stack([data.y for data in windows])


def make(seed=0, **kwargs):
    torch.manual_seed(seed)
    return TemporalDIFFormer(2, 8, **kwargs)


def test_a_broadcast_is_refused():
    a, b = torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0])
    assert mean_squared_error(a, b).item() == (1 + 4) / 2
    for wrong in (a[:, None], a[None], a[:1], a.mean()):
        with pytest.raises(ValueError, match='shape of its target'):
            mean_squared_error(wrong, b)


def test_a_model_with_a_channel_is_refused():
    """The slip of the published table: predictions [N, 1]."""
    train, val, _, _ = scaled_parts(ring(), lags=2)

    class Column(TemporalDIFFormer):
        def forward(self, *args):
            return super().forward(*args)[:, None]

    with pytest.raises(ValueError, match=r'one prediction per node.*squeeze'):
        fit_forecaster(Column(2, 4), train, val, epochs=1)


def test_it_learns_the_ring_and_keeps_the_best_epoch():
    train, val, test, _ = scaled_parts(ring(100), 2, 0.4, 0.2)
    # the graph term alone could express the recursion
    model = make(
        num_layers=1, use_norm=False, linear_skip=False, add_self_loops=False
    )
    before = torch.random.get_rng_state()
    result = fit_forecaster(model, train, val, epochs=40, lr=0.05)
    assert torch.equal(before, torch.random.get_rng_state())
    assert not model.training
    losses = [record['val_loss'] for record in result.history]
    assert result.best_loss == min(losses)
    assert losses[result.best_epoch - 1] == result.best_loss
    found = mean_squared_error(forecast(model, val), targets(val))
    assert found.item() == pytest.approx(result.best_loss, rel=1e-5)
    error = mean_squared_error(forecast(model, test), targets(test))
    for blind in (constant_forecast, linear_forecast):
        base = mean_squared_error(blind(train, test), targets(test))
        assert error < 0.5 * base  # neither sees the neighbour


def test_the_test_period_changes_nothing():
    series = ring()
    poisoned = series.signal.clone()
    poisoned[-36:] = 1e4  # the targets of the test windows
    states = []
    for signal in (series.signal, poisoned):
        parts = scaled_parts(replace(series, signal=signal), lags=2)
        assert len(parts.test) == 36
        model = make(dropout=0.2)
        fit_forecaster(model, parts.train, parts.val, epochs=5)
        states.append([*model.state_dict().values()])
    for one, other in zip(*states, strict=True):
        assert torch.equal(one, other)


def test_same_seed_same_weights():
    train, val, _, _ = scaled_parts(ring(), lags=2)
    results = []
    for seed in (1, 1, 2):
        model = make(dropout=0.5)
        fit_forecaster(model, train, val, epochs=4, seed=seed)
        results.append(forecast(model, val))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_patience_progress_and_own_loss():
    train, val, _, _ = scaled_parts(ring(), lags=2)
    seen = []

    def worse(prediction, target):
        assert prediction.shape == target.shape
        seen.append(target.size(0))
        return (prediction - target).abs().mean() + len(seen)

    records = []
    result = fit_forecaster(
        make(), train, val, patience=3, loss=worse, progress=records.append
    )
    assert result.best_epoch == 1
    assert len(result.history) == 4
    assert records == result.history
    assert seen[:2] == [len(train), len(val)]


def test_divergence_and_bad_arguments():
    train, val, _, _ = scaled_parts(ring(), lags=2)
    model = make()
    state = [p.clone() for p in model.parameters()]
    with pytest.raises(FloatingPointError, match='diverged in epoch 1'):
        fit_forecaster(model, train, val, loss=lambda p, y: p.sum() / 0)
    for one, other in zip(model.parameters(), state, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match="'epochs' >= 1"):
        fit_forecaster(model, train, val, epochs=0)
    few = scaled_parts(ring(num_nodes=3), lags=2).val
    for windows in ([], [train[0], few[0]]):
        with pytest.raises(ValueError, match='over the same nodes'):
            fit_forecaster(model, windows, val)


def test_forecast_leaves_the_mode():
    windows = scaled_parts(ring(), lags=2).val
    model = make(dropout=0.9).train()
    assert torch.equal(forecast(model, windows), forecast(model, windows))
    assert model.training


def test_baselines_by_hand():
    signal = torch.tensor([[0.0, 4.0], [1.0, 3.0], [2.0, 5.0], [3.0, 1.0]])
    edges = torch.empty(2, 0, dtype=torch.long)
    series = TemporalSignal('tiny', signal, edges)
    windows = sliding_windows(series, 1)
    train, test = windows[:2], windows[2:]  # targets [1, 3], [2, 5]
    assert constant_forecast(train, test).tolist() == [[2.75, 2.75]]
    assert constant_forecast(train, test, True).tolist() == [[1.5, 4.0]]
    assert last_value_forecast(test).tolist() == [[2.0, 5.0]]
    # the points (0, 1), (4, 3), (1, 2), (3, 5): slope 7 / 10, means 2, 2.75
    out = linear_forecast(train, test, ridge=0.0)
    torch.testing.assert_close(out, torch.tensor([[2.75, 4.85]]))
    # a large penalty leaves the constant
    flat = linear_forecast(train, test, ridge=1e9)
    torch.testing.assert_close(flat, torch.full((1, 2), 2.75))


def test_the_linear_forecast_finds_a_recursion():
    signal = torch.ones(30, 2)
    signal[0], signal[1] = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 1.0])
    for step in range(2, 30):
        signal[step] = 0.6 * signal[step - 1] - 0.5 * signal[step - 2] + 0.3
    edges = torch.empty(2, 0, dtype=torch.long)
    series = TemporalSignal('recursion', signal, edges)
    windows = sliding_windows(series, 2)
    out = linear_forecast(windows[:10], windows[10:], ridge=0.0)
    torch.testing.assert_close(out, targets(windows[10:]))
