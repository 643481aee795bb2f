"""Does a classifier know a node? Energies of any PyG model, no training.

TEG_DATA=FOLDER python examples/ood_scores.py   # a folder with cora.npz
"""

import torch

from torch_geometric.nn import GCN

from torch_energy_graph.datasets import load
from torch_energy_graph.metrics import ood_metrics
from torch_energy_graph.ood import EnergyClassifier, LabelShift
from torch_energy_graph.train import ClassifierTrainer, TrainOptions


def main(epochs=100):
    data = LabelShift(left_out=[4, 5, 6])(load('cora'))  # never trained on
    torch.manual_seed(0)
    part = torch.randint(4, (data.num_nodes,))
    known = data.y >= 0
    train, val, test = (known & (part == i) for i in range(3))
    gcn = GCN(
        data.num_features,
        64,
        num_layers=2,
        out_channels=int(data.y.max()) + 1,
        dropout=0.5,
    )
    options = TrainOptions(epochs=epochs, lr=0.01, weight_decay=5e-4)
    result = ClassifierTrainer(gcn, data, train, val, options).fit()
    guess = torch.as_tensor(result.scores).argmax(1)
    accuracy = (guess == data.y)[test].double().mean()
    print(f'accuracy on known classes {accuracy:.3f}')

    model = EnergyClassifier(gcn.eval())
    for kind in ('max_prob', 'energy', 'propagated'):
        score = model.score(data.x, data.edge_index, kind=kind)
        found = ood_metrics(score[test], score[data.ood_mask])
        print(f'{kind:10} tells left-out classes with AUROC {found.auroc:.3f}')


if __name__ == '__main__':
    main()
