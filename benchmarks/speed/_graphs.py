"""Graphs of the benchmarks: synthetic skewed ones, and real datasets."""

import numpy as np
import torch

from torch_energy_graph.datasets import load

SIGMA = 1.2  # of the lognormal weights of both degrees
SYNTHETIC = {
    '10k/500k': (10_000, 500_000),
    '45954/3.85M': (45_954, 3_850_000),
    'small': (300, 6_000),
}


def skewed_csr(num_nodes, num_edges, seed=0):
    """Pointers by target [N + 1] int64, and sources [E] int32.

    Both degrees follow lognormal weights; the ends are matched at random, so
    edges may repeat. Node 0 has no in-edge. Beside the result, E int32 values
    are never held twice.
    """
    rng = np.random.default_rng(seed)
    in_degree = _degrees(rng, num_nodes - 1, num_edges)
    rowptr = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(in_degree, out=rowptr[2:])
    out_degree = _degrees(rng, num_nodes, num_edges)
    col = np.repeat(np.arange(num_nodes, dtype=np.int32), out_degree)
    rng.shuffle(col)
    return torch.from_numpy(rowptr), torch.from_numpy(col)


def _degrees(rng, num_nodes, num_edges):
    """Degrees in proportion to skewed weights; their sum is exact."""
    share = np.exp(SIGMA * rng.standard_normal(num_nodes)).cumsum()
    ends = np.rint(share * (num_edges / share[-1])).astype(np.int64)
    return np.diff(ends, prepend=0)


def edge_list(rowptr, col):
    """Edges [2, E] (source, target), sorted by target."""
    targets = torch.arange(rowptr.size(0) - 1, device=col.device)
    dst = targets.repeat_interleave(rowptr.diff(), output_size=col.size(0))
    return torch.stack([col.long(), dst])


def load_edges(name):
    """Edges [2, E] sorted by target, and the number of nodes."""
    if name in SYNTHETIC:
        num_nodes, num_edges = SYNTHETIC[name]
        return edge_list(*skewed_csr(num_nodes, num_edges)), num_nodes
    data = load(name)
    order = torch.argsort(data.edge_index[1], stable=True)
    return data.edge_index[:, order], data.num_nodes
