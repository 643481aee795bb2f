"""A tiny dataset and tiny models; as a script, `teg` that knows them."""

import sys
import time

import numpy as np
import torch

from torch_geometric.data import Data

from torch_energy_graph.bench import (
    Prediction,
    Task,
    register_dataset,
    register_model,
)


def tiny_data():
    gen = torch.Generator().manual_seed(0)
    y = torch.zeros(120, dtype=torch.long)
    y[:30] = 1
    y[100:] = -1
    x = torch.randn(120, 3, generator=gen) + y.clamp(min=0).unsqueeze(-1)
    edge_index = torch.randint(120, (2, 300), generator=gen)
    return Data(x=x, edge_index=edge_index, y=y, secret=y)


@register_dataset('tiny')
def tiny():
    masks = torch.zeros(3, 120, 2, dtype=torch.bool)
    for part in range(3):
        masks[part, part:100:3, 0] = True
        masks[part, part:120:3, 1] = True
    return Task(tiny_data(), {'official': tuple(masks)})


@register_dataset('tiny_stored')
def tiny_stored():
    """A graph alone, without stored splits."""
    return tiny_data()


@register_dataset('tiny_absent')
def tiny_absent():
    raise FileNotFoundError('no file tiny_absent.npz')


@register_model('centroid')
def centroid(
    data, split, seed, *, scale: float = 1.0, sleep: float = 0.0
) -> Prediction:
    time.sleep(sleep)
    x, y = data.x.double(), data.y
    normal = x[split.train & (y == 0)].mean(0)
    anomalous = x[split.train & (y == 1)].mean(0)
    logit = scale * ((x - normal).norm(dim=1) - (x - anomalous).norm(dim=1))
    return Prediction(
        logit.sigmoid().numpy(),
        {'num_parameters': 6, 'best_epoch': seed, 'note': 'seen'},
    )


@register_model('broken')
def broken(data, split, seed, *, fail: bool = True) -> Prediction:
    if fail:
        raise RuntimeError('out of luck')
    return Prediction(np.full(120, 0.5))


@register_model('nan')
def nan(data, split, seed) -> Prediction:
    return Prediction(np.full(120, np.nan))


@register_model('interrupted')
def interrupted(data, split, seed) -> Prediction:
    raise KeyboardInterrupt


if __name__ == '__main__':
    from torch_energy_graph.cli import main

    sys.exit(main())
