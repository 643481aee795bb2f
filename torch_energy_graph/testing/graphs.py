"""Small graphs on which layers go wrong: stars, hubs, multigraphs, nothing.

Every graph is a :class:`torch_geometric.data.Data` with ``edge_index``
(source, target) and ``num_nodes``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_geometric.data import Batch, Data

__all__ = [
    'disjoint_union',
    'hub_graph',
    'in_star',
    'out_star',
    'random_graph',
    'standard_graphs',
]


def random_graph(
    num_nodes: int,
    num_edges: int,
    seed: int = 0,
    *,
    multi_edges: bool = True,
    self_loops: bool = True,
    num_isolated: int = 0,
) -> Data:
    """Directed graph with edges drawn uniformly.

    Args:
        num_nodes (int): Number of nodes.
        num_edges (int): Number of edges, parallel ones included.
        seed (int, optional): Same seed, same graph. (default: :obj:`0`)
        multi_edges (bool, optional): If set to :obj:`False`, edges are drawn
            without replacement. (default: :obj:`True`)
        self_loops (bool, optional): If set to :obj:`False`, no edge joins a
            node with itself. (default: :obj:`True`)
        num_isolated (int, optional): The last nodes, that many, have no
            edges. (default: :obj:`0`)

    Raises:
        ValueError: If there are not that many pairs to draw from.
    """
    nodes = num_nodes - num_isolated
    ends = nodes if self_loops else nodes - 1
    num_pairs = nodes * ends if min(nodes, ends) > 0 else 0
    if num_edges > num_pairs and (num_pairs == 0 or not multi_edges):
        raise ValueError(
            f'expected at most {num_pairs} edges between {nodes} nodes '
            f'(got {num_edges}); allow multi_edges or more nodes'
        )
    generator = torch.Generator().manual_seed(seed)
    if num_edges == 0:
        pair = torch.empty(0, dtype=torch.long)
    elif multi_edges:
        pair = torch.randint(num_pairs, (num_edges,), generator=generator)
    else:
        pair = torch.randperm(num_pairs, generator=generator)[:num_edges]
    src, step = pair // max(ends, 1), pair % max(ends, 1)
    dst = step if self_loops else (src + 1 + step) % max(nodes, 1)
    return _graph(torch.stack([src, dst]), num_nodes)


def in_star(num_leaves: int) -> Data:
    """Node 0 reads from every other node."""
    leaves = torch.arange(1, num_leaves + 1)
    return _graph(
        torch.stack([leaves, torch.zeros_like(leaves)]), num_leaves + 1
    )


def out_star(num_leaves: int) -> Data:
    """Every other node reads from node 0."""
    star = in_star(num_leaves)
    return _graph(star.edge_index.flip(0), num_leaves + 1)


def hub_graph(num_nodes: int, num_edges: int, seed: int = 0) -> Data:
    """Random graph whose node 0 is joined with every node both ways.

    Args:
        num_nodes (int): Number of nodes.
        num_edges (int): Number of random edges besides those of the hub.
        seed (int, optional): Same seed, same graph. (default: :obj:`0`)
    """
    spokes = in_star(num_nodes - 1).edge_index
    rest = random_graph(num_nodes, num_edges, seed).edge_index
    return _graph(torch.cat([spokes, spokes.flip(0), rest], 1), num_nodes)


def disjoint_union(
    graphs: Sequence[Data], shuffle_seed: int | None = None
) -> Data:
    """Graphs side by side in one graph.

    Args:
        graphs (list): The graphs; their edges keep their order.
        shuffle_seed (int, optional): If given, nodes are numbered at random,
            so that ``batch`` is not sorted. (default: :obj:`None`)

    Returns:
        Data: With ``batch`` (graph of every node) and ``n_id`` (position of
        every node in the unshuffled union).
    """
    union = Batch.from_data_list([_bare(graph) for graph in graphs])
    num_nodes = int(union.num_nodes)
    n_id = torch.arange(num_nodes)
    if shuffle_seed is not None:
        generator = torch.Generator().manual_seed(shuffle_seed)
        n_id = torch.randperm(num_nodes, generator=generator)
    position = n_id.argsort()
    return Data(
        edge_index=position[union.edge_index],
        num_nodes=num_nodes,
        batch=union.batch[n_id],
        n_id=n_id,
    )


def standard_graphs(seed: int = 0) -> dict[str, Data]:
    """The graphs that every layer should survive, by name.

    Args:
        seed (int, optional): Seed of the random ones. (default: :obj:`0`)
    """
    none = torch.empty((2, 0), dtype=torch.long)
    mutual = random_graph(8, 12, seed, multi_edges=False, self_loops=False)
    both_ways = torch.cat([mutual.edge_index, mutual.edge_index.flip(0)], 1)
    return {
        'directed multigraph': random_graph(9, 40, seed, num_isolated=2),
        'undirected': _graph(both_ways, 8),
        'in-star': in_star(6),
        'out-star': out_star(6),
        'hub': hub_graph(8, 5, seed),
        'self-loops only': _graph(torch.arange(4).repeat(2, 1), 4),
        'one edge five times': _graph(torch.tensor([[0] * 5, [1] * 5]), 3),
        'two parts': disjoint_union(
            [random_graph(4, 9, seed), random_graph(3, 5, seed + 1)]
        ),
        'no edges': _graph(none, 5),
        'one node': _graph(none, 1),
        'one node with a loop': _graph(none.new_zeros(2, 1), 1),
        'no nodes': _graph(none, 0),
    }


def _graph(edge_index: Tensor, num_nodes: int) -> Data:
    return Data(edge_index=edge_index, num_nodes=num_nodes)


def _bare(graph: Data) -> Data:
    return _graph(graph.edge_index, graph.num_nodes)
