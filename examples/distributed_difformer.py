"""Train DIFFormer on a graph that is sharded over processes.

torchrun --standalone --nproc_per_node 2 examples/distributed_difformer.py
"""

import torch
import torch.nn.functional as F

from torch_geometric.data import Data
from torch_geometric.utils import stochastic_blockmodel_graph

from torch_energy_graph.distributed import (
    ShardedDIFFormer,
    ShardedGraph,
    all_reduce_sum,
    mean_share,
    sync_gradients,
    torchrun_group,
)


def make_graph():
    """Three communities with noisy features; the same on every rank."""
    torch.manual_seed(0)
    y = torch.arange(3).repeat_interleave(100)
    inside = torch.full((3, 3), 0.005) + 0.05 * torch.eye(3)
    edge_index = stochastic_blockmodel_graph([100, 100, 100], inside)
    x = torch.randn(300, 16) + 2 * F.one_hot(y, 16)
    train_mask = torch.rand(300) < 0.2
    return Data(x=x, edge_index=edge_index, y=y, train_mask=train_mask)


def main():
    with torchrun_group() as (rank, world_size, device):
        graph = ShardedGraph.from_data(make_graph(), rank, world_size)
        graph = graph.to(device)
        graph.verify()
        own = graph.data  # the nodes of this rank
        model = ShardedDIFFormer(16, 32, 3).to(device)  # seeded above
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(30):
            optimizer.zero_grad()
            out = model(own.x, graph)  # all pairs of nodes, of all ranks
            losses = F.cross_entropy(out, own.y, reduction='none')
            share = mean_share(losses[own.train_mask])
            share.backward()
            sync_gradients(model)
            optimizer.step()
        right = (out.argmax(-1) == own.y)[~own.train_mask].sum()
        tested = (~own.train_mask).sum()
        totals = torch.stack([share.detach(), right, tested])
        loss, right, tested = all_reduce_sum(totals).tolist()
        if rank == 0:
            print(f'loss {loss:.6f}, test accuracy {right / tested:.4f}')


if __name__ == '__main__':
    main()
