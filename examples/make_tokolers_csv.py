"""Write the tolokers graph as tables, as an analyst would have them.

python examples/make_tokolers_csv.py FOLDER

nodes.csv: text ids, numbers, categories and a time, 3 % of the cells empty;
edges.csv: each pair of workers once, with one of two types. Numbers and labels
are those of the data set, whose binary features are told as words. The day of
joining is drawn at random, and says nothing.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from torch_energy_graph import datasets

MISSING = 0.03


def make_tables(data, seed=0):
    draw = np.random.default_rng(seed)
    x, count = data.x.numpy(), data.num_nodes
    ids = [f'w{i:05}' for i in draw.permutation(10 * count)[:count]]
    nodes = {f'rate_{i}': x[:, i].round(6) for i in range(4)}
    first = x[:, 4:7].argmax(axis=1)  # of three features, the first one set
    profile = np.where(x[:, 4:7].any(axis=1), first, 3)
    nodes['profile'] = np.array(['a', 'b', 'c', 'd'])[profile]
    for i, name in enumerate(['verified', 'trained', 'active'], start=7):
        nodes[name] = np.where(x[:, i] > 0, 'yes', 'no')
    days = pd.to_timedelta(draw.integers(1000, size=count), unit='D')
    nodes['joined'] = (pd.Timestamp('2020-01-01') + days).strftime('%Y-%m-%d')
    frame = pd.DataFrame(nodes)
    frame = frame.mask(draw.random(frame.shape) < MISSING)
    frame.insert(0, 'id', ids)
    frame['label'] = data.y.numpy()

    src, dst = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    names, same = np.array(ids), profile[src] == profile[dst]
    edges = pd.DataFrame({'source': names[src], 'target': names[dst]})
    edges['type'] = np.where(same, 'same_profile', 'other_profile')
    return frame, edges


def main(folder):
    frame, edges = make_tables(datasets.load('tolokers'))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_csv(folder / 'nodes.csv', index=False)
    edges.to_csv(folder / 'edges.csv', index=False)
    print(f'{len(frame)} nodes and {len(edges)} edges in {folder}')


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
