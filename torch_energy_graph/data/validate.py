"""Checks of a graph before it is trusted: each error says how to mend it."""

import torch
from torch import Tensor

from torch_geometric.data import Data

__all__ = ['check_graph']

_INTEGERS = (torch.int64, torch.int32)


def check_graph(data: Data, binary: bool = True) -> None:
    r"""Raise a clear error if a graph cannot be used as it stands.

    Args:
        data (Data): Graph with features :obj:`x` :math:`[N, F]`, edges
            :obj:`edge_index` :math:`[2, E]` and, optionally, labels
            :obj:`y` :math:`[N]` and masks :math:`[N]` or :math:`[N, S]`
            (attributes named "...mask" or "...masks", not "edge...").
        binary (bool, optional): If set to :obj:`True`, labels must be
            0 (normal), 1 (anomalous) or -1 (unlabelled).
            (default: :obj:`True`)

    Raises:
        TypeError: If :obj:`data` is no homogeneous graph.
        ValueError: If a shape, a type or a value is wrong.
        IndexError: If an edge names a node that does not exist.
    """
    if not isinstance(data, Data):
        raise TypeError(
            f"expected a 'torch_geometric.data.Data' graph (got "
            f"'{type(data).__name__}'); turn heterogeneous graphs into one "
            f'with torch_energy_graph.data.from_hetero or .to_homogeneous()'
        )
    num_nodes = _check_features(data.x)
    _check_edges(data.edge_index, num_nodes)
    if data.y is not None:
        _check_labels(data.y, num_nodes, binary)
    for key, value in data:
        if key.endswith(('mask', 'masks')) and not key.startswith('edge'):
            _check_mask(key, value, num_nodes)


def _check_features(x: Tensor | None) -> int:
    if not isinstance(x, Tensor) or x.dim() != 2:
        got = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f'expected features x of shape [N, F] (got {got})')
    if not x.is_floating_point():
        raise ValueError(
            f'expected floating-point features x (got {x.dtype}); convert '
            f'them with x.float()'
        )
    bad = (~torch.isfinite(x)).any(dim=1)  # [N]
    if bool(bad.any()):
        ids = bad.nonzero().view(-1)
        raise ValueError(
            f'expected finite features x (got NaN or Inf at {ids.numel()} '
            f'nodes, first {ids[:5].tolist()}); impute or drop them'
        )
    return x.size(0)


def _check_edges(edge_index: Tensor | None, num_nodes: int) -> None:
    if not isinstance(edge_index, Tensor):
        raise ValueError(
            f'expected a tensor edge_index of shape [2, E] (got '
            f'{type(edge_index).__name__})'
        )
    if edge_index.dtype not in _INTEGERS:
        raise ValueError(
            f'expected edge_index of dtype int64 (got {edge_index.dtype}); '
            f'convert it with .long()'
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        shape = list(edge_index.shape)
        hint = '; did you mean .t()?' if shape[-1:] == [2] else ''
        raise ValueError(
            f'expected edge_index of shape [2, E] (got {shape}){hint}'
        )
    if edge_index.numel() == 0:
        return
    low, high = int(edge_index.min()), int(edge_index.max())
    if low < 0 or high >= num_nodes:
        raise IndexError(
            f'expected node indices 0 to {num_nodes - 1} in edge_index for '
            f'{num_nodes} nodes (got {low} to {high}); number the nodes '
            f'from 0 in the order of x'
        )


def _check_labels(y: Tensor, num_nodes: int, binary: bool) -> None:
    if y.shape != (num_nodes,) or y.is_floating_point():
        raise ValueError(
            f'expected integer labels y of shape [{num_nodes}] (got '
            f'{list(y.shape)} of {y.dtype})'
        )
    if not binary:
        return
    wrong = (y < -1) | (y > 1)
    if bool(wrong.any()):
        raise ValueError(
            f'expected labels 0 (normal), 1 (anomalous) or -1 (unlabelled) '
            f'(got {y[wrong].unique()[:5].tolist()} at {int(wrong.sum())} '
            f'nodes)'
        )


def _check_mask(key: str, mask: object, num_nodes: int) -> None:
    if (
        not isinstance(mask, Tensor)
        or mask.dtype != torch.bool
        or mask.dim() not in (1, 2)
        or mask.size(0) != num_nodes
    ):
        got = (
            f'{list(mask.shape)} of {mask.dtype}'
            if isinstance(mask, Tensor)
            else type(mask).__name__
        )
        raise ValueError(
            f'expected {key} as bool of shape [{num_nodes}] or '
            f'[{num_nodes}, S] (got {got})'
        )
