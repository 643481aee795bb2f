"""Digits with half of their patches hidden, completed by energy descent.

python examples/image_completion.py [PICTURE.png]
"""

import sys
from pathlib import Path

import torch

from torch_energy_graph.datasets import load_images
from torch_energy_graph.nn.models import ImageEnergyTransformer
from torch_energy_graph.plot import image_figures, png_bytes
from torch_energy_graph.train import (
    ImageTrainer,
    ImageTrainOptions,
    completion_error,
    draw_masks,
)


def main(picture=None, epochs=16):
    digits = load_images('digits')  # 8 x 8 pixels, embedded
    torch.manual_seed(0)
    model = ImageEnergyTransformer(
        8,
        patch_size=2,
        hidden_channels=32,
        heads=4,
        head_channels=16,
        num_memories=64,
        num_steps=6,
    )
    options = ImageTrainOptions(epochs=epochs, batch_size=64, lr=0.02)
    ImageTrainer(model, digits.train, options).run()
    hidden = draw_masks(len(digits.test), model.grid)  # half of 16 patches
    error = completion_error(model.eval(), digits.test, hidden)
    print(f'mean squared error on hidden patches {error:.4f}')
    _, trace = model.complete(digits.test[:4], hidden[:4])
    print('energy', [round(e, 2) for e in trace.energy.mean(1).tolist()])
    if picture is not None:
        figures = image_figures(model, digits.test[:6], hidden[:6])
        Path(picture).write_bytes(png_bytes(figures['completion']))


if __name__ == '__main__':
    main(*sys.argv[1:2])
