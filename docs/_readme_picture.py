"""Draws energy_descent.svg, the picture of the README.

python docs/_readme_picture.py
"""

from pathlib import Path

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from torch_energy_graph.datasets import DigitsOutlier
from torch_energy_graph.nn import EnergyTransformerConv

PICTURE = Path(__file__).parent / 'energy_descent.svg'
STEPS = 40


def descent(step_size: float | str) -> torch.Tensor:
    """Energies of the digits' graph under one layer, [T + 1]."""
    data = DigitsOutlier()[0]
    torch.manual_seed(0)
    conv = EnergyTransformerConv(
        64, 64, heads=4, num_steps=STEPS, step_size=step_size
    )
    with torch.no_grad():
        _, trace = conv(data.x, data.edge_index, return_trace=True)
    return trace.energy


def draw() -> None:
    """Write the picture."""
    figure = Figure(figsize=(6, 2.6), layout='constrained')
    ax = figure.subplots()
    names = {'auto': "step_size='auto', certified", 0.1: '0.1', 1.0: '1.0'}
    for step_size, name in names.items():
        ax.plot(descent(step_size) / 1673, label=name)
    ax.set(xlabel='step', ylabel='energy per node')
    ax.legend(frameon=False)
    ax.spines[['top', 'right']].set_visible(False)
    with rc_context({'svg.hashsalt': 'descent'}):
        figure.savefig(PICTURE, metadata={'Date': None})


if __name__ == '__main__':
    draw()
