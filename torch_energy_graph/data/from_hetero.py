"""One graph with typed edges from a graph with types of nodes."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import NodeStorage
from torch_geometric.typing import Metadata

__all__ = ['from_hetero']


def from_hetero(data: HeteroData, metadata: Metadata | None = None) -> Data:
    r"""Join all types of nodes into one graph, and number the relations.

    Features of several types stand side by side, zeros at nodes of the other
    types, with one column per type that marks its nodes. Nodes of a type
    without labels are unlabelled (-1); they and masks that other types lack
    neither train nor score.

    Args:
        data (HeteroData): Each node type has features :obj:`x`, and at least
            one has labels :obj:`y`.
        metadata (tuple, optional): Node types and edge types in the order of
            their numbers, such as ``train.metadata()`` for a graph that comes
            later; if :obj:`None`, those of :obj:`data`.
            (default: :obj:`None`)

    Returns:
        Data: Fields :obj:`x`, :obj:`y`, :obj:`edge_index`, :obj:`edge_type`,
        :obj:`node_type` :math:`[N]`, the list :obj:`node_id` with entries
        such as 'user:3' (3 for a single type; ids of the stores are used if
        they have :obj:`node_id`), the masks, and :obj:`edge_attr` if all
        relations have one of the same width.

    Raises:
        TypeError: If :obj:`data` is no heterogeneous graph.
        ValueError: If a type lacks features, or is not in the metadata.
    """
    if not isinstance(data, HeteroData):
        raise TypeError(
            f"'from_hetero' expects a 'torch_geometric.data.HeteroData' "
            f"graph (got '{type(data).__name__}')"
        )
    node_types, edge_types = metadata or data.metadata()
    _check_types(data, node_types, edge_types)
    stores = [data[name] for name in node_types]
    sizes = torch.tensor([store.x.size(0) for store in stores])
    joined = Data(
        x=_features([store.x for store in stores]),
        y=torch.cat([_labels(store) for store in stores]),
        node_type=torch.arange(len(stores)).repeat_interleave(sizes),
        node_id=[
            i
            for n, s in zip(node_types, stores, strict=True)
            for i in _ids(n, s, len(stores))
        ],
    )
    first = dict(
        zip(node_types, (sizes.cumsum(0) - sizes).tolist(), strict=True)
    )
    used = [(r, t) for r, t in enumerate(edge_types) if t in data.edge_types]
    shifts = [torch.tensor([[first[t[0]]], [first[t[2]]]]) for _, t in used]
    edges = [data[t].edge_index for _, t in used]
    empty = [torch.empty(2, 0, dtype=torch.long)]
    joined.edge_index = torch.cat(
        [e + s for e, s in zip(edges, shifts, strict=True)] or empty, dim=1
    )
    counts = torch.tensor([e.size(1) for e in edges], dtype=torch.long)
    numbers = torch.tensor([r for r, _ in used], dtype=torch.long)
    joined.edge_type = numbers.repeat_interleave(counts)
    attr = _edge_attr([data[t].get('edge_attr') for _, t in used])
    if attr is not None:
        joined.edge_attr = attr
    for key in _mask_names(stores):
        joined[key] = torch.cat([_mask(store, key) for store in stores])
    return joined


def _check_types(
    data: HeteroData,
    node_types: Sequence[str],
    edge_types: Sequence[tuple[str, str, str]],
) -> None:
    if {*data.node_types} != {*node_types}:
        raise ValueError(
            f'expected the node types {", ".join(node_types)} (got '
            f'{", ".join(data.node_types)}); a type without nodes has '
            f'features of shape [0, F]'
        )
    new = [kind for kind in data.edge_types if kind not in edge_types]
    if new:
        raise ValueError(
            f'expected relations among {list(edge_types)} (got {new[0]}); '
            f'delete its edges'
        )
    for name in node_types:
        x = data[name].get('x')
        if not isinstance(x, Tensor) or x.dim() != 2:
            raise ValueError(
                f"expected features x of shape [N, F] at the nodes '{name}'; "
                f'use torch.ones(N, 1) if they have none'
            )


def _features(blocks: list[Tensor]) -> Tensor:
    if len(blocks) == 1:
        return blocks[0]
    widths = [block.size(1) for block in blocks]
    padded = []
    for number, block in enumerate(blocks):
        left, right = sum(widths[:number]), sum(widths[number + 1 :])
        mark = block.new_zeros(block.size(0), len(blocks))
        mark[:, number] = 1
        padded.append(torch.cat([F.pad(block, (left, right)), mark], dim=1))
    return torch.cat(padded)  # [N, sum of widths + number of types]


def _labels(store: NodeStorage) -> Tensor:
    num_nodes = store.x.size(0)
    y = store.get('y')
    if y is None:
        return torch.full((num_nodes,), -1)
    if y.shape != (num_nodes,) or y.is_floating_point():
        raise ValueError(
            f'expected integer labels y of shape [{num_nodes}] at the nodes '
            f"'{store._key}' (got {list(y.shape)} of {y.dtype})"
        )
    return y.long()


def _ids(name: str, store: NodeStorage, num_types: int) -> list[object]:
    ids = store.get('node_id')
    ids = range(store.x.size(0)) if ids is None else ids
    ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
    return ids if num_types == 1 else [f'{name}:{i}' for i in ids]


def _mask_names(stores: Sequence[NodeStorage]) -> list[str]:
    keys = dict.fromkeys(key for store in stores for key in store)
    return [key for key in keys if key.endswith('mask')]


def _mask(store: NodeStorage, key: str) -> Tensor:
    mask = store.get(key)
    if mask is None:
        return torch.zeros(store.x.size(0), dtype=torch.bool)
    return mask


def _edge_attr(attrs: list[Tensor | None]) -> Tensor | None:
    given = [attr for attr in attrs if attr is not None]
    if not given:
        return None
    widths = {attr.size(1) if attr.dim() == 2 else None for attr in given}
    if len(given) < len(attrs) or len(widths) > 1 or None in widths:
        raise ValueError(
            'expected edge_attr of shape [E, D] with one D at all relations '
            'or at none; fill up with zeros, or delete them'
        )
    return torch.cat(given)
