"""Forecasts that any model of a node signal has to beat."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_geometric.data import Data

__all__ = ['constant_forecast', 'last_value_forecast', 'linear_forecast']

Windows = Sequence[Data]


def constant_forecast(
    train: Windows, windows: Windows, per_node: bool = False
) -> Tensor:
    r"""The mean of the training targets, :math:`[W, N]`.

    Args:
        train (list): Training windows.
        windows (list): Windows to forecast.
        per_node (bool, optional): One mean per node instead of one for all.
            (default: :obj:`False`)
    """
    y = torch.stack([data.y for data in train])  # [W_train, N]
    mean = y.mean(0) if per_node else y.mean().expand(y.size(1))
    return mean.expand(len(windows), -1)


def last_value_forecast(windows: Windows) -> Tensor:
    r"""Everything stays as it is: the last value known, :math:`[W, N]`."""
    return torch.stack([data.x[:, -1] for data in windows])


def linear_forecast(
    train: Windows, windows: Windows, ridge: float = 1e-6
) -> Tensor:
    r"""Linear autoregression with weights that all nodes share.

    Least squares on the training windows, in closed form.

    Args:
        train (list): Training windows.
        windows (list): Windows to forecast.
        ridge (float, optional): L2 penalty of a weight, relative to the
            number of training targets; the constant is free.
            (default: :obj:`1e-6`)

    Returns:
        Tensor: :math:`[W, N]`.
    """
    x = torch.cat([data.x for data in train]).double()  # [M, L]
    y = torch.cat([data.y for data in train]).double()  # [M]
    x_mean, y_mean = x.mean(0), y.mean()
    gram = (x - x_mean).T @ (x - x_mean)
    gram.diagonal().add_(ridge * len(y))
    weight = torch.linalg.solve(gram, (x - x_mean).T @ (y - y_mean))  # [L]
    inputs = torch.stack([data.x for data in windows]).double()
    out = (inputs - x_mean) @ weight + y_mean
    return out.to(windows[0].x.dtype)
