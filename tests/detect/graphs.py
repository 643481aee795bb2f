"""Small graphs with something to find."""

import torch

from torch_geometric.data import Data


def fraud_graph(num_nodes=240, seed=0, relations=0, edge_dim=0):
    """A fifth of the nodes is anomalous: shifted, and linked to each other."""
    gen = torch.Generator().manual_seed(seed)
    y = (torch.arange(num_nodes) % 5 == 0).long()
    x = torch.randn(num_nodes, 4, generator=gen)
    x[:, 0] += 1.2 * y
    x[:, 3] = 1.0  # constant
    src = torch.randint(num_nodes, (2, 4 * num_nodes), generator=gen)
    same = y[src[0]] == y[src[1]]
    keep = same | (torch.rand(src.size(1), generator=gen) < 0.5)
    edge_index = src[:, keep]
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    data = Data(x=x, edge_index=edge_index, y=y)
    num_edges = edge_index.size(1)
    if relations:
        data.edge_type = torch.randint(relations, (num_edges,), generator=gen)
    if edge_dim:
        data.edge_attr = 5 + 3 * torch.randn(
            num_edges, edge_dim, generator=gen
        )
    order = torch.randperm(num_nodes, generator=gen)
    data.train_mask, data.val_mask, data.test_mask = (
        torch.zeros(num_nodes, dtype=torch.bool).index_fill(0, part, True)
        for part in order.tensor_split(3)
    )
    return data


SMALL = {
    'hidden_channels': 8,
    'heads': 4,  # beta is no binary fraction
    'epochs': 6,
    'ensemble': 2,
    'num_parts': 2,
}
