"""Random disjoint node parts and their induced subgraphs."""

from collections.abc import Iterator

import torch
from torch import Generator

from torch_geometric.data import Data

__all__ = ['RandomPartitionLoader']


class RandomPartitionLoader:
    r"""Splits the nodes into random parts and yields induced subgraphs.

    Every epoch draws a new partition, so an edge that is cut in one epoch
    (:math:`1 - 1 / P` of them are, on average, for :math:`P` parts) has a new
    chance in the next. Parts differ in size by at most one node. Inside a part
    nodes keep their order; :obj:`n_id` holds their indices in :obj:`data`.

    Args:
        data (Data): The graph.
        num_parts (int): Number of parts :math:`P`.
        shuffle (bool, optional): If set to :obj:`False`, parts are blocks of
            consecutive nodes, the same in every epoch.
            (default: :obj:`True`)
        generator (torch.Generator, optional): Source of randomness, on CPU;
            if :obj:`None`, the global one. (default: :obj:`None`)
    """

    def __init__(
        self,
        data: Data,
        num_parts: int,
        shuffle: bool = True,
        generator: Generator | None = None,
    ) -> None:
        num_nodes = data.num_nodes or 0
        if not 1 <= num_parts <= num_nodes:
            raise ValueError(
                f"'RandomPartitionLoader' expects 1 <= num_parts <= "
                f'{num_nodes} nodes (got {num_parts})'
            )
        self.data = data
        self.num_parts = num_parts
        self.shuffle = shuffle
        self.generator = generator
        self._num_nodes = num_nodes

    def __len__(self) -> int:
        return self.num_parts

    def __iter__(self) -> Iterator[Data]:
        order = torch.arange(self._num_nodes)
        if self.shuffle:
            order = torch.randperm(self._num_nodes, generator=self.generator)
        for part in order.tensor_split(self.num_parts):
            n_id = part.sort().values.to(self.data.edge_index.device)
            sub = self.data.subgraph(n_id)
            sub.n_id = n_id
            yield sub

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}({self.data}, num_parts={self.num_parts}, '
            f'shuffle={self.shuffle})'
        )
