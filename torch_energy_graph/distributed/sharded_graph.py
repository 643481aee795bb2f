r"""One rank's part of a graph: its nodes, their in-edges and its halo.

Every node has one owner. A rank keeps all in-edges of the nodes it owns, so
that sums over neighbours are local. Sources that others own are its *halo*;
their rows are fetched when needed:

.. code-block:: text

    rows    0 .. N_r - 1           N_r .. N_r + M_r - 1
            owned, as in n_id      halo, grouped by owner, as in halo_id
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.data import check_graph
from torch_energy_graph.distributed.collectives import (
    Group,
    all_reduce_sum,
    exchange_rows,
    world_of,
)
from torch_energy_graph.ops import GraphCache

__all__ = ['ShardedGraph']


@dataclass(frozen=True, eq=False)
class ShardedGraph:
    r"""The part of a graph that one rank owns; see :meth:`from_data`.

    Attributes:
        data (Data): Node attributes of the owned nodes (:obj:`x`, :obj:`y`,
            masks), and no edges.
        num_nodes (int): Nodes of the whole graph :math:`N`.
        n_id (LongTensor): Owned nodes, ascending, :math:`[N_r]`.
        halo_id (LongTensor): Sources owned by others, :math:`[M_r]`.
        edge_index (LongTensor): In-edges of the owned nodes, in the order of
            the whole graph, :math:`[2, E_r]`: rows of
            :obj:`cat([owned, halo])` to rows of owned nodes.
        edge_id (LongTensor): Their positions in the whole graph,
            :math:`[E_r]`.
        edge_weight (Tensor, optional): Their weights, :math:`[E_r]`.
        send_index (LongTensor): Owned rows that others need, grouped by
            receiver.
        send_counts (list): Rows to send to each rank.
        recv_counts (list): Rows to receive from each rank.
    """

    data: Data
    num_nodes: int
    n_id: Tensor
    halo_id: Tensor
    edge_index: Tensor
    edge_id: Tensor
    edge_weight: Tensor | None
    send_index: Tensor
    send_counts: list[int]
    recv_counts: list[int]

    @classmethod
    def from_data(
        cls,
        data: Data,
        rank: int,
        world_size: int,
        owner: Tensor | None = None,
    ) -> ShardedGraph:
        r"""Cut a graph that every rank has loaded; nothing is communicated.

        Args:
            data (Data): The whole graph, the same on every rank:
                :obj:`x`, :obj:`edge_index`, :obj:`edge_weight` (optional)
                and any node attributes.
            rank (int): Own rank.
            world_size (int): Number of ranks :math:`R`.
            owner (LongTensor, optional): Owner of every node, :math:`[N]`,
                for example from a clustering; fewer edges between owners
                are fewer rows to send. If :obj:`None`, blocks of
                consecutive nodes whose sizes differ by at most one.
                (default: :obj:`None`)

        Raises:
            ValueError: If rank, owners or the graph are not valid.
        """
        if not 0 <= rank < world_size:
            raise ValueError(
                f'expected 0 <= rank < world_size (got {rank} and '
                f'{world_size})'
            )
        check_graph(Data(x=data.x, edge_index=data.edge_index))
        num_nodes, edge_index = data.x.size(0), data.edge_index.long()
        weight = _check_weight(data.edge_weight, edge_index.size(1))
        owner = _check_owner(owner, num_nodes, world_size, edge_index.device)

        n_id = (owner == rank).nonzero().view(-1)  # [N_r]
        src, dst = edge_index
        edge_id = (owner[dst] == rank).nonzero().view(-1)  # [E_r]
        # a pair (reader, source) is one row sent from the source's owner
        crossing = (owner[src] == rank) ^ (owner[dst] == rank)
        reader, node = _distinct(
            owner[dst[crossing]], src[crossing], num_nodes
        )
        reads = reader == rank
        halo_id = node[reads]
        halo_id = halo_id[owner[halo_id].argsort(stable=True)]
        sends = owner[node] == rank

        row = torch.empty_like(owner)
        row[halo_id] = torch.arange(
            n_id.numel(), n_id.numel() + halo_id.numel(), device=row.device
        )
        row[n_id] = torch.arange(n_id.numel(), device=row.device)
        return cls(
            data=_node_attributes(data, n_id),
            num_nodes=num_nodes,
            n_id=n_id,
            halo_id=halo_id,
            edge_index=row[edge_index[:, edge_id]],
            edge_id=edge_id,
            edge_weight=None if weight is None else weight[edge_id],
            send_index=row[node[sends]],
            send_counts=_counts(reader[sends], world_size),
            recv_counts=_counts(owner[halo_id], world_size),
        )

    @cached_property
    def cache(self) -> GraphCache:
        """The local edges, sorted once, among owned nodes and halo."""
        num_rows = self.n_id.numel() + self.halo_id.numel()
        return GraphCache.from_edge_index(self.edge_index, num_rows)

    def to(self, device: torch.device | str) -> ShardedGraph:
        """The same part on another device."""
        moved = {
            field.name: getattr(self, field.name).to(device)
            for field in fields(self)
            if isinstance(getattr(self, field.name), Tensor)
        }
        return replace(self, data=copy.copy(self.data).to(device), **moved)

    def with_halo(self, x: Tensor, group: Group = None) -> Tensor:
        r"""Rows of the owned nodes, then of the halo, differentiable.

        Args:
            x (Tensor): Rows of the owned nodes, :math:`[N_r, *]`.
            group (ProcessGroup, optional): If :obj:`None`, all ranks.
                (default: :obj:`None`)

        Returns:
            Tensor: :math:`[N_r + M_r, *]`.

        Raises:
            ValueError: If there isn't one row for every owned node.
        """
        self._check_rows(x)
        sent = x.index_select(0, self.send_index)
        halo = exchange_rows(sent, self.send_counts, self.recv_counts, group)
        return torch.cat([x, halo])

    def whole(self, x: Tensor, group: Group = None) -> Tensor:
        r"""Rows of all nodes in the order of the whole graph, on every rank.

        For evaluation on small graphs: it moves :math:`N` rows.

        Args:
            x (Tensor): Rows of the owned nodes, :math:`[N_r, *]`.
            group (ProcessGroup, optional): If :obj:`None`, all ranks.
                (default: :obj:`None`)

        Returns:
            Tensor: :math:`[N, *]`.
        """
        self._check_rows(x)
        rows = x.new_zeros(self.num_nodes, *x.shape[1:])
        return all_reduce_sum(rows.index_copy(0, self.n_id, x), group)

    def verify(self, group: Group = None) -> None:
        """Raise on every rank if the parts do not fit together.

        Ranks that cut different graphs (an unseeded random one, say) would
        otherwise wait for each other or mix up rows.

        Args:
            group (ProcessGroup, optional): If :obj:`None`, all ranks.
                (default: :obj:`None`)

        Raises:
            ValueError: If the parts come from different graphs or owners.
        """
        _, world_size = world_of(group)
        sizes = [self.num_nodes, self.n_id.numel()]
        row = [*sizes, *self.send_counts, *self.recv_counts]
        ones = [1] * world_size
        table = exchange_rows(
            self.n_id.new_tensor([row] * world_size), ones, ones, group
        )  # [R, 2 + 2R], the same on every rank
        nodes, owned = table[:, 0], table[:, 1]
        sent, received = table[:, 2:].chunk(2, dim=1)
        fit = bool((nodes == owned.sum()).all()) and sent.equal(received.t())
        if fit:
            ids = torch.cat([self.n_id, self.halo_id])
            wrong = (self.with_halo(self.n_id, group) != ids).sum()
            fit = int(all_reduce_sum(wrong, group)) == 0
        if not fit:
            raise ValueError(
                'expected parts of one graph (the ranks disagree about its '
                'nodes or edges); load the same graph and owners on every '
                'rank, and seed what is random'
            )

    def _check_rows(self, x: Tensor) -> None:
        if x.size(0) != self.n_id.numel():
            raise ValueError(
                f'expected one row for each of the {self.n_id.numel()} nodes '
                f'that this rank owns (got {list(x.shape)}); take '
                f"x[graph.n_id] or 'graph.data'"
            )


def _check_weight(weight: Tensor | None, num_edges: int) -> Tensor | None:
    if weight is not None and weight.shape != (num_edges,):
        raise ValueError(
            f'expected edge_weight of shape [{num_edges}] (got '
            f'{list(weight.shape)}); flatten it with .view(-1)?'
        )
    return weight


def _check_owner(
    owner: Tensor | None, num_nodes: int, world_size: int, device: torch.device
) -> Tensor:
    if owner is None:
        sizes = torch.arange(num_nodes).tensor_split(world_size)
        return torch.cat(
            [torch.full_like(part, r) for r, part in enumerate(sizes)]
        ).to(device)
    if owner.shape != (num_nodes,) or owner.is_floating_point():
        raise ValueError(
            f'expected an integer owner for each of {num_nodes} nodes (got '
            f'{list(owner.shape)} of {owner.dtype})'
        )
    if bool(((owner < 0) | (owner >= world_size)).any()):
        raise ValueError(
            f'expected owners 0 to {world_size - 1} (got {int(owner.min())} '
            f'to {int(owner.max())})'
        )
    return owner.to(device, torch.long)


def _distinct(
    reader: Tensor, node: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor]:
    """Distinct pairs, by reader, then by node."""
    pair = (reader * num_nodes + node).unique()
    size = max(num_nodes, 1)
    return pair // size, pair % size


def _counts(rank: Tensor, world_size: int) -> list[int]:
    return torch.bincount(rank, minlength=world_size).tolist()


def _node_attributes(data: Data, n_id: Tensor) -> Data:
    part = Data(num_nodes=n_id.numel())
    for key, value in data:
        if key != 'edge_index' and data.is_node_attr(key):
            part[key] = value[n_id]
    return part
