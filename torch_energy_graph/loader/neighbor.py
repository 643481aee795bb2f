"""Neighbour sampling in plain PyTorch: no pyg-lib, no torch-sparse."""

from collections.abc import Iterator, Sequence

import torch
from torch import Generator, Tensor

from torch_geometric.data import Data
from torch_geometric.typing import OptTensor
from torch_geometric.utils import index_sort, mask_to_index

__all__ = ['NeighborLoader']


class NeighborLoader:
    r"""Yields seed nodes with a sample of their in-neighbourhood.

    Hop :math:`l` draws, for each node that hop :math:`l - 1` reached first,
    up to :math:`k_l` of its in-edges without replacement; parallel edges are
    drawn each for itself. Batches have the attributes of PyG's
    :class:`~torch_geometric.loader.NeighborLoader`: seeds come first, and

    * :obj:`n_id`, :obj:`e_id`: indices of nodes and edges in :obj:`data`,
    * :obj:`batch_size`: the number of seeds,
    * :obj:`input_id`: their positions in :obj:`input_nodes`.

    With all in-edges drawn, :math:`L` layers that read in-edges only give the
    seeds what they get in the full graph. Layers that normalise by the degree
    of a source, such as :class:`~torch_geometric.nn.GCNConv`, do so only if
    the weights were computed on the full graph and are an edge attribute of
    :obj:`data`, since the outermost nodes come without in-edges.

    A batch takes memory and time for all in-edges of the nodes whose edges it
    draws, and once :math:`O(N + E)` for the index. It runs in the calling
    process.

    Args:
        data (Data): The graph.
        num_neighbors (sequence of int): :math:`k_1, \dots, k_L`;
            :obj:`-1` draws all.
        input_nodes (Tensor, optional): Indices or a bool mask :math:`[N]` of
            the seeds; if :obj:`None`, all nodes. (default: :obj:`None`)
        batch_size (int, optional): Seeds of a batch; the last one may have
            fewer. (default: :obj:`1`)
        shuffle (bool, optional): Whether seeds come in a new random order in
            each epoch. (default: :obj:`False`)
        generator (torch.Generator, optional): Source of randomness, on CPU;
            if :obj:`None`, the global one. (default: :obj:`None`)
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        input_nodes: OptTensor = None,
        batch_size: int = 1,
        shuffle: bool = False,
        generator: Generator | None = None,
    ) -> None:
        if not num_neighbors or min(num_neighbors) < -1:
            raise ValueError(
                f"'NeighborLoader' expects one number per hop in "
                f"'num_neighbors', -1 for all (got {list(num_neighbors)})"
            )
        if batch_size < 1:
            raise ValueError(
                f"'NeighborLoader' expects 'batch_size' >= 1 (got "
                f'{batch_size})'
            )
        self.data = data
        self.num_neighbors = list(num_neighbors)
        self.input_nodes = _seeds(data, input_nodes)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = generator
        num_nodes = data.num_nodes or 0
        dst, self._e_id = index_sort(data.edge_index[1], max_value=num_nodes)
        self._src = data.edge_index[0][self._e_id]  # [E], by target
        degree = torch.bincount(dst, minlength=num_nodes)
        self._ptr = torch.cat([degree.new_zeros(1), degree.cumsum(0)])

    def __len__(self) -> int:
        return -(-self.input_nodes.numel() // self.batch_size)

    def __iter__(self) -> Iterator[Data]:
        order = torch.arange(self.input_nodes.numel())
        if self.shuffle:
            order = torch.randperm(order.numel(), generator=self.generator)
        place = self._ptr.new_full((self._ptr.numel() - 1,), -1)  # [N]
        for input_id in order.split(self.batch_size):
            if input_id.numel():
                yield self._batch(input_id.to(place.device), place)

    def _batch(self, input_id: Tensor, place: Tensor) -> Data:
        """Sample around some seeds; ``place`` holds -1 before and after."""
        seeds = self.input_nodes[input_id]
        place[seeds] = torch.arange(seeds.numel(), device=seeds.device)
        n_id, frontier, edges = seeds, seeds, []
        for count in self.num_neighbors:
            edges.append(self._in_edges(frontier, count))
            src = self._src[edges[-1]]
            frontier = src[place[src] < 0].unique()
            place[frontier] = n_id.numel() + torch.arange(
                frontier.numel(), device=seeds.device
            )
            n_id = torch.cat([n_id, frontier])
        e_id = self._e_id[torch.cat(edges)]
        batch = self._select(n_id, e_id)
        batch.edge_index = place[self.data.edge_index[:, e_id]]
        batch.n_id, batch.e_id = n_id, e_id
        batch.input_id, batch.batch_size = input_id, seeds.numel()
        place[n_id] = -1
        return batch

    def _in_edges(self, nodes: Tensor, count: int) -> Tensor:
        """Positions, in order of targets, of drawn in-edges."""
        start, end = self._ptr[nodes], self._ptr[nodes + 1]
        degree = end - start
        first = degree.cumsum(0) - degree  # of each node among the candidates
        row = torch.arange(nodes.numel(), device=nodes.device)
        row = row.repeat_interleave(degree)
        rank = torch.arange(row.numel(), device=nodes.device) - first[row]
        candidates = start[row] + rank
        if count == -1 or row.numel() == 0 or int(degree.max()) <= count:
            return candidates
        key = torch.rand(row.numel(), generator=self.generator)
        # a stable sort by row after one by key shuffles within the rows
        shuffled = key.argsort().to(row.device)
        shuffled = shuffled[row[shuffled].argsort(stable=True)]
        return candidates[shuffled[rank < count]].sort().values

    def _select(self, n_id: Tensor, e_id: Tensor) -> Data:
        batch = Data(num_nodes=n_id.numel())
        for key, value in self.data:
            if key in ('edge_index', 'num_nodes'):
                continue
            if isinstance(value, Tensor) and self.data.is_node_attr(key):
                value = value[n_id]
            elif isinstance(value, Tensor) and self.data.is_edge_attr(key):
                value = value[e_id]
            batch[key] = value
        return batch

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}({self.data}, num_neighbors='
            f'{self.num_neighbors}, batch_size={self.batch_size})'
        )


def _seeds(data: Data, nodes: OptTensor) -> Tensor:
    num_nodes = data.num_nodes or 0
    device = data.edge_index.device
    if nodes is None:
        return torch.arange(num_nodes, device=device)
    mask = nodes.dtype == torch.bool
    if nodes.dim() != 1 or (mask and nodes.numel() != num_nodes):
        raise ValueError(
            f"'NeighborLoader' expects 'input_nodes' as indices or a bool "
            f'mask [{num_nodes}] (got {list(nodes.shape)} of {nodes.dtype})'
        )
    index: Tensor = mask_to_index(nodes) if mask else nodes.long()
    if index.unique().numel() < index.numel():
        raise ValueError(
            "'NeighborLoader' expects each node once in 'input_nodes' (got "
            f'{index.numel() - index.unique().numel()} repeated ones)'
        )
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < (
        num_nodes
    ):
        raise IndexError(
            f"'NeighborLoader' expects 'input_nodes' from 0 to "
            f'{num_nodes - 1} (got {int(index.min())} to {int(index.max())})'
        )
    return index.to(device)
