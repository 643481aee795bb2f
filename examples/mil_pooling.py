"""Bags of digits, positive if one is a nine: which instance decided?

python examples/mil_pooling.py
"""

import torch
from sklearn.metrics import roc_auc_score

from torch_energy_graph.datasets import load_images
from torch_energy_graph.datasets.toy_bags import image_bags
from torch_energy_graph.nn.models import HopfieldClassifier
from torch_energy_graph.train import BagOptions, bag_logits, fit_bags

TARGET = 9


def main(num_bags=400, epochs=30):
    digits = load_images('digits')
    images, classes = digits.train.flatten(1), digits.train_y
    bags = image_bags(images, classes, TARGET, num_bags)
    known = torch.arange(3 * num_bags // 4)
    test = torch.arange(len(known), num_bags)

    torch.manual_seed(0)
    model = HopfieldClassifier(bags.x.shape[1], 32)
    options = BagOptions(epochs=epochs, lr=0.005, batch_bags=32)
    fit_bags(model, bags, known, options=options)
    margin = bag_logits(model, bags, test).diff(dim=1).squeeze(1)
    area = roc_auc_score(bags.y[test], margin)
    print(f'{len(test)} test bags, AUC {area:.3f}')

    positive = bags.select(test[bags.y[test] == 1])
    _, weights = model(
        positive.x, positive.batch, len(positive), True
    )  # [N, states, heads]
    weights = weights.detach().mean((1, 2))
    rows = torch.arange(len(weights)).split(positive.ptr.diff().tolist())
    strongest = [int(row[weights[row].argmax()]) for row in rows]
    looks = torch.cdist(positive.x[strongest], images).argmin(1)
    found = classes[looks] == TARGET
    print(
        f'strongest instance is a nine in {int(found.sum())} of {len(found)}'
    )


if __name__ == '__main__':
    main()
