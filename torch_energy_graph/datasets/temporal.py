"""One value per node and time step, on a fixed or changing graph."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_energy_graph.datasets.npz_graph import Arrays, read_arrays
from torch_energy_graph.datasets.roots import Root, find_file
from torch_energy_graph.datasets.temporal_download import fetch_temporal

__all__ = ['TemporalSignal', 'load_temporal']

PLACES = ('{0}.npz', '{0}.json', 'torch_geometric_temporal/{0}.json')
_SIGNAL_KEYS = ('FX', 'X', 'y')  # one per file of the publisher


@dataclass(frozen=True, eq=False)
class TemporalSignal:
    r"""A node signal over time and the graph that it was observed with.

    Args:
        name (str): For messages.
        signal (Tensor): Values :math:`[T, N]`, finite.
        edge_index (LongTensor): Edges from source to target, :math:`[2, E]`;
            with :obj:`edge_ptr`, those of all steps, one after the other.
        edge_weight (Tensor, optional): :math:`w \ge 0`, :math:`[E]`.
            (default: :obj:`None`)
        edge_ptr (LongTensor, optional): Step :math:`t` has the edges from
            :obj:`edge_ptr[t]` to :obj:`edge_ptr[t + 1]`, :math:`[T + 1]`; if
            :obj:`None`, all steps share one graph. (default: :obj:`None`)
        node_names (tuple, optional): One per node, or none.
            (default: :obj:`()`)
        path (Path, optional): The file. (default: :obj:`None`)
    """

    name: str
    signal: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    edge_ptr: Tensor | None = None
    node_names: tuple[str, ...] = ()
    path: Path | None = None

    def __post_init__(self) -> None:
        num_edges = self.edge_index.size(-1)
        if self.signal.dim() != 2 or not self.signal.is_floating_point():
            raise ValueError(
                f'expected a floating-point signal of shape [T, N] (got '
                f'{list(self.signal.shape)} of {self.signal.dtype})'
            )
        bad = int((~self.signal.isfinite()).sum())
        if bad:
            raise ValueError(
                f'expected finite values in the signal (got {bad} that are '
                f'not); fill the gaps first'
            )
        _check_edges(self.edge_index, self.num_nodes)
        weight = self.edge_weight
        if weight is not None and weight.shape != (num_edges,):
            raise ValueError(
                f'expected edge_weight of shape [{num_edges}] (got '
                f'{list(weight.shape)})'
            )
        if weight is not None and not bool((weight >= 0).all()):
            raise ValueError('expected edge_weight >= 0 without NaN')
        if self.edge_ptr is not None:
            _check_ptr(self.edge_ptr, self.num_steps, num_edges)
        if len(self.node_names) not in (0, self.num_nodes):
            raise ValueError(
                f'expected {self.num_nodes} node names (got '
                f'{len(self.node_names)})'
            )

    @property
    def num_steps(self) -> int:
        """Number of time steps :math:`T`."""
        return self.signal.size(0)

    @property
    def num_nodes(self) -> int:
        """Number of nodes :math:`N`."""
        return self.signal.size(1)

    def graph(self, step: int) -> tuple[Tensor, Tensor | None]:
        """Edges :math:`[2, E_t]` and their weights at a time step."""
        if not 0 <= step < self.num_steps:
            raise IndexError(
                f'expected a step from 0 to {self.num_steps - 1} (got {step})'
            )
        if self.edge_ptr is None:
            return self.edge_index, self.edge_weight
        start, stop = self.edge_ptr[step : step + 2].tolist()
        weight = self.edge_weight
        if weight is not None:
            weight = weight[start:stop]
        return self.edge_index[:, start:stop], weight

    def __repr__(self) -> str:
        kind = 'one graph' if self.edge_ptr is None else 'a graph per step'
        return (
            f'{type(self).__name__}({self.name!r}, steps={self.num_steps}, '
            f'nodes={self.num_nodes}, {kind})'
        )


def load_temporal(
    name: str, root: Root = None, download: bool = False
) -> TemporalSignal:
    r"""A node signal by name, from a local file or its publisher.

    Read are npz files with :obj:`signal` :math:`[T, N]`, :obj:`edge_index`
    and optionally :obj:`edge_weight`, :obj:`edge_ptr`, :obj:`node_names`
    (see :class:`TemporalSignal`), and the JSON files of PyTorch Geometric
    Temporal. Values are those of the file, float32: 'chickenpox' and
    'pedalme_london' were standardised by their publisher over the whole
    series, 'england_covid' counts cases.

    Args:
        name (str): 'chickenpox', 'england_covid', 'pedalme_london', or the
            name of your own file without ending.
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        download (bool, optional): If the file is nowhere, fetch the
            publisher's into :obj:`root` (``~/.cache/torch_energy_graph`` if
            :obj:`None`) and compare its checksum. (default: :obj:`False`)
    """
    try:
        path = find_file(name, [p.format(name) for p in PLACES], root)
    except FileNotFoundError:
        if not download:
            raise
        path = fetch_temporal(name, root)
    try:
        read = _read_json if path.suffix == '.json' else read_arrays
        return _to_signal(name, read(path), path)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"bad signal in '{path}': {error}") from error


def _to_signal(name: str, arrays: Arrays, path: Path) -> TemporalSignal:
    missing = [k for k in ('signal', 'edge_index') if k not in arrays]
    if missing:
        raise ValueError(
            f'expected arrays {", ".join(missing)} (got '
            f'{", ".join(sorted(arrays))})'
        )
    signal, edge_index = arrays['signal'], arrays['edge_index']
    if signal.dtype.kind not in 'fiu' or edge_index.dtype.kind not in 'iu':
        raise ValueError(
            f'expected numbers in signal and integers in edge_index (got '
            f'{signal.dtype} and {edge_index.dtype})'
        )

    def optional(key: str, kind: type[np.generic]) -> Tensor | None:
        if key not in arrays:
            return None
        return torch.from_numpy(arrays[key].astype(kind))

    return TemporalSignal(
        name,
        torch.from_numpy(signal.astype(np.float32)),
        torch.from_numpy(np.ascontiguousarray(edge_index, np.int64)),
        optional('edge_weight', np.float32),
        optional('edge_ptr', np.int64),
        tuple(str(n) for n in arrays.get('node_names', ())),
        path,
    )


def _read_json(path: Path) -> Arrays:
    """Arrays of a file of PyTorch Geometric Temporal, in the npz form."""
    tree = json.loads(path.read_text('utf-8'))
    keys = [key for key in _SIGNAL_KEYS if key in tree]
    if len(keys) != 1:
        raise ValueError(
            f'expected one of {_SIGNAL_KEYS} (got {sorted(tree)})'
        )
    arrays = {'signal': np.array(tree[keys[0]], dtype=np.float64)}
    if 'edge_mapping' in tree:
        return {**arrays, **_edges_by_step(tree)}
    arrays['edge_index'] = np.array(tree['edges']).reshape(-1, 2).T
    if 'weights' in tree:
        arrays['edge_weight'] = np.array(tree['weights'], dtype=np.float64)
    if 'node_ids' in tree:
        ids = tree['node_ids']
        arrays['node_names'] = np.array(sorted(ids, key=ids.__getitem__))
    return arrays


def _edges_by_step(tree: dict[str, Any]) -> Arrays:
    index, weight = (
        [tree['edge_mapping'][key][str(t)] for t in range(len(tree['y']))]
        for key in ('edge_index', 'edge_weight')
    )
    sizes = [len(edges) for edges in index]
    if sizes != [len(values) for values in weight]:
        raise ValueError('expected one edge_weight per edge in every step')
    edges = [np.array(pairs, int).reshape(-1, 2) for pairs in index]
    return {
        'edge_index': np.concatenate(edges).T,
        'edge_weight': np.concatenate(weight).astype(np.float64),
        'edge_ptr': np.cumsum([0, *sizes]),
    }


def _check_edges(edge_index: Tensor, num_nodes: int) -> None:
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            f'expected edge_index of shape [2, E] (got '
            f'{list(edge_index.shape)})'
        )
    if edge_index.numel() == 0:
        return
    low, high = int(edge_index.min()), int(edge_index.max())
    if low < 0 or high >= num_nodes:
        raise IndexError(
            f'expected node indices 0 to {num_nodes - 1} in edge_index (got '
            f'{low} to {high})'
        )


def _check_ptr(ptr: Tensor, num_steps: int, num_edges: int) -> None:
    ends = ptr[[0, -1]].tolist() if ptr.shape == (num_steps + 1,) else []
    if ends != [0, num_edges] or bool((ptr.diff() < 0).any()):
        raise ValueError(
            f'expected edge_ptr of shape [{num_steps + 1}], rising from 0 to '
            f'{num_edges} (got {list(ptr.shape)})'
        )
