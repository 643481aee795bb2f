"""Windows of a node signal, its split by time, and leak-free scaling."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.datasets.temporal import TemporalSignal

__all__ = [
    'PeriodScaler',
    'TemporalParts',
    'scaled_parts',
    'sliding_windows',
    'time_split',
]


def sliding_windows(series: TemporalSignal, lags: int) -> list[Data]:
    r"""One graph per target step: the last :obj:`lags` values, the next one.

    Window :math:`w` has features :obj:`x` :math:`[N, L]` (oldest value
    first), the target :obj:`y` :math:`[N]` of step :math:`w + L`, and the
    edges of step :math:`w + L - 1`, the last that is known then.

    Args:
        series (TemporalSignal): The signal, of :math:`T` steps.
        lags (int): Number of past values :math:`L`.

    Returns:
        list: :math:`T - L` graphs, in the order of time.
    """
    count = series.num_steps - lags
    if lags < 1 or count < 1:
        raise ValueError(
            f"expected 1 <= 'lags' < {series.num_steps}, the number of steps "
            f'(got {lags})'
        )
    windows = []
    for start in range(count):
        step = start + lags
        edge_index, edge_weight = series.graph(step - 1)
        windows.append(
            Data(
                x=series.signal[start:step].t().contiguous(),  # [N, L]
                y=series.signal[step],  # [N]
                edge_index=edge_index,
                edge_weight=edge_weight,
                step=step,
            )
        )
    return windows


def time_split(
    count: int, train: float = 0.2, val: float = 0.2
) -> tuple[range, range, range]:
    """Indices of training, validation and test windows, in this order.

    Args:
        count (int): Number of windows.
        train (float, optional): Share of the first part.
            (default: :obj:`0.2`)
        val (float, optional): Share of the second part.
            (default: :obj:`0.2`)
    """
    first = int(train * count)
    second = first + int(val * count)
    if not 0 < first < second < count:
        raise ValueError(
            f'expected at least one window in each part (got {first}, '
            f'{second - first} and {count - second} of {count})'
        )
    return range(first), range(first, second), range(second, count)


@dataclass(frozen=True, eq=False)
class PeriodScaler:
    r"""Standardisation of each node by one period, the training period.

    Attributes:
        mean: :math:`[N]`.
        scale: Standard deviation :math:`[N]`; 1 where it is 0.
    """

    mean: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, signal: Tensor, num_steps: int) -> 'PeriodScaler':
        """Measure the first steps; what comes later is never read.

        Args:
            signal (Tensor): :math:`[T, N]`.
            num_steps (int): Length of the period: with :obj:`n` training
                windows of :obj:`lags` values, :obj:`n + lags`.
        """
        if not 1 <= num_steps <= signal.size(0):
            raise ValueError(
                f"expected 1 <= 'num_steps' <= {signal.size(0)} (got "
                f'{num_steps})'
            )
        period = signal[:num_steps].double()
        scale = period.std(0, correction=0)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        mean = period.mean(0)
        return cls(mean.to(signal.dtype), scale.to(signal.dtype))

    def transform(self, signal: Tensor) -> Tensor:
        """Values :math:`[..., N]` in units of the period's deviations."""
        return (signal - self.mean) / self.scale

    def inverse(self, signal: Tensor) -> Tensor:
        """Values :math:`[..., N]` back in their own units."""
        return signal * self.scale + self.mean


class TemporalParts(NamedTuple):
    """Windows of three periods, and the scaler that they went through."""

    train: list[Data]
    val: list[Data]
    test: list[Data]
    scaler: PeriodScaler


def scaled_parts(
    series: TemporalSignal, lags: int, train: float = 0.2, val: float = 0.2
) -> TemporalParts:
    r"""Windows split by time, each node scaled by the training period.

    The first values of validation and test windows belong to the period
    before, as they are known when the forecast is made.

    Args:
        series (TemporalSignal): The signal.
        lags (int): Number of past values :math:`L`.
        train (float, optional): Share of the training windows.
            (default: :obj:`0.2`)
        val (float, optional): Share of the validation windows.
            (default: :obj:`0.2`)
    """
    parts = time_split(series.num_steps - lags, train, val)
    scaler = PeriodScaler.fit(series.signal, len(parts[0]) + lags)
    scaled = replace(series, signal=scaler.transform(series.signal))
    windows = sliding_windows(scaled, lags)
    first, second, third = ([windows[i] for i in part] for part in parts)
    return TemporalParts(first, second, third, scaler)
