from dataclasses import replace

import pytest
import torch

from torch_energy_graph.datasets import (
    PeriodScaler,
    TemporalSignal,
    scaled_parts,
    sliding_windows,
    time_split,
)


def counting(num_steps=12, num_nodes=2):
    """Value `t + 100 i` at step t of node i; step t has t edges."""
    steps = torch.arange(num_steps)
    return TemporalSignal(
        'counting',
        (steps[:, None] + 100 * torch.arange(num_nodes)).float(),
        torch.zeros(2, int(steps.sum()), dtype=torch.long),
        edge_weight=steps.repeat_interleave(steps).float(),
        edge_ptr=torch.cat([torch.tensor([0]), steps.cumsum(0)]),
    )


def test_windows_hold_the_past_and_its_last_graph():
    windows = sliding_windows(counting(), lags=3)
    assert len(windows) == 9
    for start, data in enumerate(windows):
        first = [start, start + 1, start + 2]
        assert data.x.tolist() == [first, [value + 100 for value in first]]
        assert data.y.tolist() == [start + 3, start + 103]
        assert data.step == start + 3
        # the graph of the last step that is known, not of the target
        assert data.edge_weight.tolist() == [start + 2.0] * (start + 2)


@pytest.mark.parametrize('lags', [0, 12, 99])
def test_lags_must_leave_a_target(lags):
    with pytest.raises(ValueError, match="1 <= 'lags' < 12"):
        sliding_windows(counting(), lags)


@pytest.mark.parametrize(
    ('steps', 'lags', 'sizes'),
    [(521, 4, [103, 103, 311]), (61, 8, [10, 10, 33]), (35, 4, [6, 6, 19])],
)
def test_split_of_the_public_series(steps, lags, sizes):
    parts = time_split(steps - lags)
    assert [len(part) for part in parts] == sizes
    assert [i for part in parts for i in part] == list(range(steps - lags))


@pytest.mark.parametrize('shares', [(0.0, 0.5), (0.5, 0.01), (0.5, 0.5)])
def test_no_part_may_be_empty(shares):
    with pytest.raises(ValueError, match='one window in each part'):
        time_split(10, *shares)


def test_scaler_by_hand():
    signal = torch.tensor([[1.0, 5.0], [3.0, 5.0], [1e6, -1e6]])
    scaler = PeriodScaler.fit(signal, 2)
    assert scaler.mean.tolist() == [2.0, 5.0]
    assert scaler.scale.tolist() == [1.0, 1.0]  # 1 for a constant node
    scaled = scaler.transform(signal)
    assert scaled[:2].tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    torch.testing.assert_close(scaler.inverse(scaled), signal)
    with pytest.raises(ValueError, match="1 <= 'num_steps' <= 3"):
        PeriodScaler.fit(signal, 4)


def test_later_periods_do_not_reach_the_scaling():
    """What comes after the training targets may be anything."""
    gen = torch.Generator().manual_seed(0)
    series = replace(counting(52), signal=torch.randn(52, 2, generator=gen))
    poisoned = series.signal.clone()
    poisoned[10 + 2 :] = 1e30  # 10 training windows of 2 lags
    clean = scaled_parts(series, lags=2)
    other = scaled_parts(replace(series, signal=poisoned), lags=2)
    assert len(clean.train) == 10
    assert torch.equal(clean.scaler.mean, other.scaler.mean)
    assert torch.equal(clean.scaler.scale, other.scaler.scale)
    for one, same in zip(clean.train, other.train, strict=True):
        assert torch.equal(one.x, same.x)
        assert torch.equal(one.y, same.y)
    # the scaler reads all of the training period, the last target too
    poisoned[10 + 1] = 1e3
    last = scaled_parts(replace(series, signal=poisoned), lags=2)
    assert not torch.equal(clean.scaler.mean, last.scaler.mean)


def test_parts_are_scaled_windows():
    series = counting(22)
    parts = scaled_parts(series, lags=2)
    signal = parts.scaler.transform(series.signal)
    assert [len(part) for part in parts[:3]] == [4, 4, 12]
    for data in (*parts.train, *parts.val, *parts.test):
        assert torch.equal(data.y, signal[data.step])
        assert torch.equal(data.x, signal[data.step - 2 : data.step].T)
    period = signal[: 4 + 2].double()
    torch.testing.assert_close(period.mean(0), torch.zeros(2).double())
    torch.testing.assert_close(
        period.std(0, correction=0), torch.ones(2).double()
    )
