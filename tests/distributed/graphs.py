import torch

from torch_geometric.data import Data


def random_graph(num_nodes, num_edges, seed=0):
    """A directed multigraph with isolated nodes and self-loops."""
    gen = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=gen)
    return Data(
        x=torch.randn(num_nodes, 3, generator=gen).double(),
        edge_index=edge_index,
        edge_weight=torch.rand(num_edges, generator=gen).double(),
        y=torch.randint(2, (num_nodes,), generator=gen),
    )


def owners(num_nodes, world_size, seed):
    """Random; with three ranks, rank 1 owns nothing."""
    gen = torch.Generator().manual_seed(seed)
    owner = torch.randint(2, (num_nodes,), generator=gen)
    return owner * (world_size - 1)
