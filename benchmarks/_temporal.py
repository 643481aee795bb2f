"""What benchmarks/temporal.py compares: tasks, forecasters, released form."""

from dataclasses import dataclass, replace

import torch

from torch_energy_graph.datasets import (
    load_temporal,
    scaled_parts,
    sliding_windows,
    time_split,
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

LAGS = {'chickenpox': 4, 'england_covid': 8, 'pedalme_london': 4}
# the setting of the published runs, for every network
NETWORK = {'hidden_channels': 4, 'num_layers': 2, 'dropout': 0.2}
TRAINING = {'lr': 0.01, 'weight_decay': 0.0}

BASELINES = {
    'constant': lambda task: constant_forecast(task.train, task.test),
    'constant per node': lambda task: constant_forecast(
        task.train, task.test, per_node=True
    ),
    'last value': lambda task: last_value_forecast(task.test),
    'linear, shared by nodes': lambda task: linear_forecast(
        task.train, task.test
    ),
}
# what the released measure says about forecasts that know the future
ORACLES = {
    'the truth': lambda task: task.truth(),
    'the truth, mean over nodes': lambda task: (
        task.truth().mean(1, keepdim=True).expand_as(task.truth())
    ),
}
# how to build a network: keywords of the model, or 'mean' for plain means
NETWORKS = {
    'GCN only': {'graph_weight': 1.0},
    'mean pooling': {'mean': True},
    'DIFFormer-s, node norm': {},
    'DIFFormer-s, global norm': {'normalize': 'global'},
    'DIFFormer-a': {'kernel': 'sigmoid'},
}


@dataclass(frozen=True)
class Task:
    """Windows of three periods; errors are multiplied by `unit` [N]."""

    train: list
    val: list
    test: list
    unit: torch.Tensor  # of an error, in deviations of the publisher
    count: torch.Tensor  # of an error, in the values of the file

    def truth(self):
        """Targets [W, N] of the test windows."""
        return torch.stack([data.y for data in self.test])


def published_scale(series):
    """Deviations [N] by which the publisher divides; 1 if the file did."""
    if series.name == 'england_covid':
        return series.signal.std(0, correction=0)
    return torch.ones(series.num_nodes)


def right_task(name, root=None, download=False):
    """Scaled by the training period; measured in the publisher's units."""
    series = load_temporal(name, root, download)
    train, val, test, scaler = scaled_parts(series, LAGS[name])
    unit = scaler.scale / published_scale(series)
    return Task(train, val, test, unit, scaler.scale)


def released_task(name, root=None, download=False):
    """As released: standardised over the whole series, future included."""
    series = load_temporal(name, root, download)
    scale = published_scale(series)
    mean = series.signal.mean(0)
    if name != 'england_covid':  # the file is standardised already
        mean = torch.zeros_like(mean)
    signal = (series.signal - mean) / scale
    windows = sliding_windows(replace(series, signal=signal), LAGS[name])
    parts = [[windows[i] for i in p] for p in time_split(len(windows))]
    return Task(*parts, torch.ones_like(scale), scale)


def released_loss(prediction, target):
    """As released: [N, 1] minus [N] of a window gives all N x N pairs."""
    return (prediction[:, :, None] - target[:, None, :]).square().mean()


def build(lags, seed, mean=False, **kwargs):
    """A network of a row, with weights drawn from the seed."""
    torch.manual_seed(seed)
    model = TemporalDIFFormer(lags, use_value=False, **NETWORK, **kwargs)
    if mean:  # a zero query has the same weight with all nodes
        for conv in model.net.convs:
            for weight in conv.attention.lin_query.parameters():
                torch.nn.init.zeros_(weight).requires_grad_(False)
    return model


def network_row(task, seed, epochs, released=False, **kwargs):
    """Trains one network and measures it on the test windows."""
    model = build(task.train[0].x.size(1), seed, **kwargs)
    result = fit_forecaster(
        model,
        task.train,
        task.val,
        epochs=epochs,
        loss=released_loss if released else mean_squared_error,
        seed=seed,
        **TRAINING,
    )
    return {
        'best_epoch': result.best_epoch,
        'val_loss': result.best_loss,
        **measures(task, forecast(model, task.test)),
    }


def measures(task, prediction):
    """Right mean squared and absolute errors, and the released measure."""
    target = task.truth()
    error = prediction - target
    return {
        'test_mse': (error * task.unit).square().mean().item(),
        'test_mae': (error * task.count).abs().mean().item(),
        'test_released': released_loss(
            prediction * task.unit, target * task.unit
        ).item(),
    }
