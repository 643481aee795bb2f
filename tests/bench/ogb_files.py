"""Tiny datasets in the folders and files that OGB's loader reads."""

import gzip

import numpy as np

NUM_NODES = 90


def write_arxiv(root, seed=0):
    """A directed graph, four classes that features and edges tell."""
    gen = np.random.default_rng(seed)
    label = gen.integers(4, size=NUM_NODES)
    x = gen.normal(size=(NUM_NODES, 6)).round(4)
    x[np.arange(NUM_NODES), label] += 2
    return _write(
        root / 'ogbn_arxiv',
        split='time',
        gen=gen,
        label=label[:, None],
        edge=_edges(gen, 300),
        node_feat=x,
        node_year=gen.integers(2000, 2020, size=(NUM_NODES, 1)),
    )


def write_products(root, seed=0):
    """Each edge is stored once; OGB adds the reverse."""
    gen = np.random.default_rng(seed)
    return _write(
        root / 'ogbn_products',
        split='sales_ranking',
        gen=gen,
        label=gen.integers(47, size=(NUM_NODES, 1)),
        edge=_edges(gen, 150),
        node_feat=gen.normal(size=(NUM_NODES, 5)).round(4),
    )


def write_proteins(root, seed=0):
    """112 binary tasks, features of edges only, split by species.

    Six tasks have both classes; the Evaluator leaves out the others.
    """
    gen = np.random.default_rng(seed)
    edge = _edges(gen, 200)
    weight = gen.random((len(edge), 8)).round(3)
    score = gen.normal(size=(NUM_NODES, 112))
    score[:, 6:] = -1
    score[:, 0] = np.bincount(edge[:, 1], weight[:, 0], NUM_NODES) - 1
    return _write(
        root / 'ogbn_proteins',
        split='species',
        gen=gen,
        label=(score > 0).astype(int),
        edge=edge,
        edge_feat=weight,
        node_species=np.repeat([3702, 4932, 9606], NUM_NODES // 3)[:, None],
    )


def _edges(gen, count):
    """Different pairs of different nodes, [count, 2], no pair reversed."""
    first, second = np.triu_indices(NUM_NODES, 1)
    chosen = gen.choice(len(first), count, replace=False)
    return np.stack([first[chosen], second[chosen]], axis=1)


def _write(folder, split, gen, label, edge, **files):
    folder.mkdir(parents=True)
    (folder / 'RELEASE_v1.txt').write_text('')
    raw = folder / 'raw'
    csv(raw / 'edge', edge)
    csv(raw / 'num-node-list', [[NUM_NODES]])
    csv(raw / 'num-edge-list', [[len(edge)]])
    csv(raw / 'node-label', label)
    for name, values in files.items():
        name = name.replace('_feat', '-feat')
        csv(raw / name, values)
    if 'node_species' in files:  # a part of the split is a species
        parts = np.split(np.arange(NUM_NODES), 3)
    else:
        parts = np.split(gen.permutation(NUM_NODES), [45, 65])
    for name, index in zip(('train', 'valid', 'test'), parts, strict=True):
        csv(folder / 'split' / split / name, index[:, None])
    return folder


def csv(path, rows):
    """Write PATH.csv.gz as OGB does, without header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = ''.join(','.join(str(v) for v in row) + '\n' for row in rows)
    with gzip.open(f'{path}.csv.gz', 'wt') as file:
        file.write(text)


def read_csv(path):
    """Read PATH.csv.gz."""
    with gzip.open(f'{path}.csv.gz', 'rt') as file:
        return np.loadtxt(file, delimiter=',', ndmin=2)
