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
    chance in the next. Parts differ in size by at most one node and are never
    empty. Inside a part nodes keep their order; :obj:`n_id` holds their
    indices in :obj:`data`.

    Args:
        data (Data): The graph.
        num_parts (int): Number of parts :math:`P`.
        shuffle (bool, optional): If set to :obj:`False`, parts are blocks of
            consecutive nodes, the same in every epoch.
            (default: :obj:`True`)
        generator (torch.Generator, optional): Source of randomness, on CPU;
            if :obj:`None`, the global one. (default: :obj:`None`)

    Attributes:
        edge_share: Share of the edges that the last complete epoch kept;
            :obj:`None` before its end.
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
        self.edge_share: float | None = None
        self._num_nodes = num_nodes

    @property
    def expected_edge_share(self) -> float:
        r"""Share of the edges that a random partition keeps on average.

        Self-loops always stay; an edge between two nodes stays with
        probability :math:`\sum_p n_p (n_p - 1) / (N (N - 1))`, :math:`n_p`
        the sizes of the parts. 1 for a graph without edges.
        """
        src, dst = self.data.edge_index
        if src.numel() == 0:
            return 1.0
        loops = int((src == dst).sum())
        small, larger = divmod(self._num_nodes, self.num_parts)
        pairs = larger * (small + 1) * small
        pairs += (self.num_parts - larger) * small * (small - 1)
        chance = pairs / max(1, self._num_nodes * (self._num_nodes - 1))
        return (loops + (src.numel() - loops) * chance) / src.numel()

    def __len__(self) -> int:
        return self.num_parts

    def __iter__(self) -> Iterator[Data]:
        order = torch.arange(self._num_nodes)
        if self.shuffle:
            order = torch.randperm(self._num_nodes, generator=self.generator)
        kept = 0
        for part in order.tensor_split(self.num_parts):
            n_id = part.sort().values.to(self.data.edge_index.device)
            sub = self.data.subgraph(n_id)
            sub.n_id = n_id
            kept += sub.num_edges
            yield sub
        edges = self.data.num_edges
        self.edge_share = kept / edges if edges else 1.0

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}({self.data}, num_parts={self.num_parts}, '
            f'shuffle={self.shuffle})'
        )
