"""From two CSV files to the accounts to look at first.

python examples/own_csv.py FOLDER   # made-up tables, if it has none
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split

from torch_energy_graph.data import Preprocessing, data_card, from_folder
from torch_energy_graph.metrics import auprc
from torch_energy_graph.nn.models import EnergyAnomalyDetector
from torch_energy_graph.train import fit, seed_everything


def write_tables(folder):
    """400 accounts; the 40 fraudulent ones pay each other more often."""
    folder.mkdir(parents=True, exist_ok=True)
    draw, fraud = np.random.default_rng(0), np.arange(400) % 10 == 0
    nodes = pd.DataFrame({'id': [f'acc-{i:03}' for i in range(400)]})
    nodes['amount'] = draw.lognormal(3 + 1.5 * fraud).round(2)
    nodes['country'] = draw.choice(['DE', 'FR', 'PL', None], 400)
    nodes['label'] = np.where(fraud, 'fraud', 'ok')
    ends = draw.integers(400, size=(1200, 2))
    ends[:200] = draw.choice(np.flatnonzero(fraud), (200, 2))
    edges = pd.DataFrame(nodes['id'].to_numpy()[ends])
    edges.columns = ['source', 'target']
    edges['type'] = np.where(np.arange(1200) % 3, 'pays', 'device')
    nodes.to_csv(folder / 'nodes.csv', index=False)
    edges.to_csv(folder / 'edges.csv', index=False)
    (folder / 'layout.json').write_text('{"positive": "fraud"}')


def main(folder):
    if not (folder / 'nodes.csv').exists():
        write_tables(folder)
    table = from_folder(folder)
    print(table, *data_card(table)['warnings'], sep='\n- ')
    known = (table.y >= 0).nonzero().view(-1)
    how = {'test_size': 0.5, 'random_state': 0}
    train, rest = train_test_split(known, stratify=table.y[known], **how)
    val, test = train_test_split(rest, stratify=table.y[rest], **how)
    masks = torch.zeros(2, table.num_nodes, dtype=torch.bool)
    masks[0, train] = masks[1, val] = True

    data = Preprocessing().fit_transform(table, mask=masks[0])
    seed_everything(0)
    model = EnergyAnomalyDetector(data.num_features, hidden_channels=32)
    result = fit(model, data, *masks, epochs=30, lr=0.01)
    test = test[np.argsort(-result.scores[test])]  # highest scores first
    print('look at', [data.node_id[i] for i in test[:5]])
    print(f'test AUPRC {auprc(data.y[test], result.scores[test]):.3f}')


if __name__ == '__main__':
    main(Path(sys.argv[1]))
