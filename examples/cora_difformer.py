"""Cora with DIFFormer: one split, trained and tested.

TEG_DATA=FOLDER python examples/cora_difformer.py   # a folder with cora.npz
"""

import torch

from torch_energy_graph.datasets import load
from torch_energy_graph.nn.models import DIFFormer
from torch_energy_graph.train import (
    ClassifierTrainer,
    TrainOptions,
    seed_everything,
)


def draw_split(y, per_class=20, num_val=500, num_test=1000):
    """Masks of a random split in the manner of Planetoid."""
    order = torch.randperm(len(y))
    train = torch.zeros(len(y), dtype=torch.bool)
    for label in y.unique():
        train[order[y[order] == label][:per_class]] = True
    rest = order[~train[order]]
    val, test = torch.zeros_like(train), torch.zeros_like(train)
    val[rest[:num_val]] = test[rest[num_val : num_val + num_test]] = True
    return train, val, test


def main(epochs=200):
    data = load('cora')
    seed_everything(0)
    train, val, test = draw_split(data.y)
    model = DIFFormer(
        data.num_features,
        hidden_channels=64,
        out_channels=int(data.y.max()) + 1,
        num_layers=4,
        normalize='global',  # as in the released code
        dropout=0.2,
    )
    options = TrainOptions(epochs=epochs, lr=0.001, weight_decay=0.01)
    trainer = ClassifierTrainer(model, data, train, val, options)
    result = trainer.fit()
    right = torch.as_tensor(result.scores).argmax(1) == data.y
    accuracy = right[test].double().mean()
    print(f'best epoch {result.best_epoch}, test accuracy {accuracy:.3f}')


if __name__ == '__main__':
    main()
