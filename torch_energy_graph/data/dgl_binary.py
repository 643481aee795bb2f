r"""DGL's binary graph files (``dgl.save_graphs``), read with NumPy alone.

The file is not trusted. Every count and size in it is compared with the bytes
that are left before anything is allocated, so that reading takes a small
multiple of the file's size at most, whatever its header claims. Nothing in
the format is executable.

Layout of version 2, little-endian; the words in capitals are the blocks that
the functions below and :mod:`.dgl_blocks` read::

    0           u64 magic, u64 version, u64 type = 2, u64 number of graphs
    4096        u64 start of the graphs, DICT of graph labels
    start       GRAPH after GRAPH

    GRAPH       u64 magic, METAGRAPH, counted RELATIONs, counted i64 numbers
                of nodes, counted DICTs of nodes, counted DICTs of edges,
                counted STRINGs (node types), counted STRINGs (edge types)
    METAGRAPH   u64 magic, CSR (row, index: source and target node type,
                edge id: number of the relation)
    RELATION    u64 magic, i64 saved formats, i64 allowed formats; for each
                saved format: METAGRAPH and COO, CSR or CSC
    ARRAY       u64 magic, u64 0, i32 device, i32 device number, i32 ndim,
                u8 kind, u8 bits, u16 lanes, i64 shape[ndim], i64 bytes, data
    DICT        u64 n, n times STRING and ARRAY
    STRING      u64 length, bytes
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torch_energy_graph.data.dgl_blocks import Array, BlockReader

__all__ = ['DGLGraph', 'read_dgl_binary']

EdgeType = tuple[str, str, str]

_FILE = 0xDD2E4FF046B4A13F
_GRAPH = 0xDD589FBE35224ABF
_METAGRAPH = 0xDD3C5FFE20046ABF
_RELATION = 0xDD2E60F0F6B4A127
_CSR = 0xDD6CD31205DFF127
_COO = 0xDD61FFD305DFF127

_VERSION = 2
_HETEROGRAPH = 2
_LABELS_AT = 4096


@dataclass(frozen=True)
class DGLGraph:
    """A graph as it stands in the file.

    Attributes:
        num_nodes: Number of nodes by node type.
        edges: Sources and targets :math:`[2, E]` by relation (source type,
            name, target type), in the order of the edge numbers.
        node_data: Arrays :math:`[N, ...]` by node type and name.
        edge_data: Arrays :math:`[E, ...]` by relation and name.
    """

    num_nodes: dict[str, int]
    edges: dict[EdgeType, Array]
    node_data: dict[str, dict[str, Array]]
    edge_data: dict[EdgeType, dict[str, Array]]


def read_dgl_binary(
    path: str | os.PathLike[str],
) -> tuple[list[DGLGraph], dict[str, Array]]:
    """Graphs and graph labels of a file, as ``dgl.load_graphs`` has them.

    Arrays keep the types they have in the file; edges are int32 or int64.

    Args:
        path (str or Path): A file written by ``dgl.save_graphs``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is no DGL graph file, is damaged, or holds
            what this reader does not know.
    """
    with Path(path).open('rb') as file:
        size = os.fstat(file.fileno()).st_size
        try:
            return _read_file(BlockReader(file, size))
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"cannot read '{path}' as a DGL graph file: {error}; fetch "
                f"the file again, or write it again with 'dgl.save_graphs'"
            ) from error


def _read_file(reader: BlockReader) -> tuple[list[DGLGraph], dict[str, Array]]:
    reader.magic(_FILE, 'graph file')
    version, kind, num_graphs = reader.numbers('QQQ')
    if (version, kind) != (_VERSION, _HETEROGRAPH):
        raise ValueError(
            f'expected version {_VERSION} and type {_HETEROGRAPH} (got '
            f'{version} and {kind})'
        )
    reader.move(_LABELS_AT)
    start = reader.number()
    labels = reader.dictionary()
    if start < reader.position:  # or blocks could be read more than once
        raise ValueError(
            f'expected graphs after the labels, from offset '
            f'{reader.position} (got {start})'
        )
    reader.move(start)
    return [_read_graph(reader) for _ in range(num_graphs)], labels


def _read_graph(reader: BlockReader) -> DGLGraph:
    reader.magic(_GRAPH, 'graph')
    ends = _read_metagraph(reader)
    relations = reader.many(lambda: _read_relation(reader))
    counts = reader.many(lambda: reader.number('q'))
    node_data = reader.many(reader.dictionary)
    edge_data = reader.many(reader.dictionary)
    node_types = reader.many(reader.string)
    edge_types = reader.many(reader.string)
    _same_length('node type', counts, node_data, node_types)
    _same_length('relation', ends, relations, edge_data, edge_types)
    if min(counts, default=0) < 0:
        raise ValueError(f'expected numbers of nodes (got {counts})')
    if ends and max(map(max, ends)) >= len(counts):
        raise ValueError(
            f'expected node types 0 to {len(counts) - 1} (got {ends})'
        )
    names = [
        (node_types[source], name, node_types[target])
        for (source, target), name in zip(ends, edge_types, strict=True)
    ]
    if len({*node_types}) < len(counts) or len({*names}) < len(ends):
        raise ValueError(
            f'expected distinct names of types (got {node_types} and {names})'
        )
    for (source, target), edges, data in zip(
        ends, relations, edge_data, strict=True
    ):
        _check_ends(edges, counts[source], counts[target])
        _check_data(data, edges.shape[1], 'edges')
    for count, data in zip(counts, node_data, strict=True):
        _check_data(data, count, 'nodes')
    return DGLGraph(
        num_nodes=dict(zip(node_types, counts, strict=True)),
        edges=dict(zip(names, relations, strict=True)),
        node_data=dict(zip(node_types, node_data, strict=True)),
        edge_data=dict(zip(names, edge_data, strict=True)),
    )


def _read_metagraph(reader: BlockReader) -> list[tuple[int, int]]:
    """Source and target type of each relation, by its number."""
    reader.magic(_METAGRAPH, 'metagraph')
    pairs = _read_csr(reader)
    _check_integers(pairs, 'the metagraph')
    if pairs.size and pairs.min() < 0:
        raise ValueError('expected node types from 0 in the metagraph')
    return [(int(source), int(target)) for source, target in pairs.T]


def _read_relation(reader: BlockReader) -> Array:
    """Edges of the first saved format; the others repeat them."""
    reader.magic(_RELATION, 'relation')
    code, _ = reader.numbers('qq')
    edges: Array | None = None
    for name in _saved_formats(code):
        _read_metagraph(reader)
        if edges is not None:
            _skip_edges(reader, name)
        elif name == 'coo':
            edges = _read_coo(reader)
        else:
            edges = _read_csr(reader)
            edges = edges[::-1] if name == 'csc' else edges
    if edges is None:
        raise ValueError(f'expected a saved format (got code {code})')
    return edges


def _saved_formats(code: int) -> list[str]:
    formats = ['coo', 'csr', 'csc']
    if code > 1 << 32:  # a set of bits in the low word
        return [name for bit, name in enumerate(formats) if code >> bit & 1]
    if not 1 <= code <= len(formats):
        raise ValueError(f'expected a saved format 1 to 3 (got {code})')
    return [formats[code - 1]]


def _read_coo(reader: BlockReader) -> Array:
    reader.magic(_COO, 'COO matrix')
    num_rows, num_cols = reader.numbers('qq')
    row, col, ids = reader.array(), reader.array(), reader.array()
    reader.numbers('BB')  # whether rows and columns are sorted
    _check_integers(row, 'the rows')
    _check_integers(col, 'the columns')
    if row.ndim != 1 or row.shape != col.shape:
        raise ValueError(
            f'expected as many rows as columns (got {row.shape} and '
            f'{col.shape})'
        )
    edges = _by_number(np.stack([row, col]), ids)
    _check_ends(edges, num_rows, num_cols)
    return edges


def _read_csr(reader: BlockReader) -> Array:
    """Rows and columns :math:`[2, E]`, in the order of the edge numbers."""
    reader.magic(_CSR, 'CSR matrix')
    num_rows, num_cols = reader.numbers('qq')
    ptr, col, ids = reader.array(), reader.array(), reader.array()
    reader.number('B')  # whether columns are sorted
    _check_integers(ptr, 'the row pointers')
    _check_integers(col, 'the columns')
    if num_rows < 0 or ptr.shape != (num_rows + 1,) or col.ndim != 1:
        raise ValueError(
            f'expected {num_rows + 1} row pointers and a list of columns '
            f'(got shapes {ptr.shape} and {col.shape})'
        )
    if ptr[0] != 0 or ptr[-1] != col.size or (ptr[1:] < ptr[:-1]).any():
        raise ValueError(
            f'expected row pointers that rise from 0 to {col.size}, the '
            f'number of edges'
        )
    row = np.repeat(np.arange(num_rows, dtype=col.dtype), np.diff(ptr))
    edges = _by_number(np.stack([row, col]), ids)
    _check_ends(edges, num_rows, num_cols)
    return edges


def _skip_edges(reader: BlockReader, name: str) -> None:
    coo = name == 'coo'
    reader.magic(_COO if coo else _CSR, 'matrix')
    reader.numbers('qq')
    for _ in range(3):
        reader.skip_array()
    reader.numbers('BB' if coo else 'B')


def _by_number(edges: Array, ids: Array) -> Array:
    """Edges ordered by their numbers; no numbers mean they are ordered."""
    if ids.size == 0:
        return edges
    _check_integers(ids, 'the edge numbers')
    num_edges = edges.shape[1]
    known = (ids >= 0) & (ids < num_edges)
    seen = np.zeros(num_edges, dtype=bool)
    seen[ids[known]] = True
    if ids.shape != (num_edges,) or not seen.all():
        raise ValueError(
            f'expected each edge number 0 to {num_edges - 1} once (got '
            f'{ids.size} numbers)'
        )
    ordered = np.empty_like(edges)
    ordered[:, ids] = edges
    return ordered


def _check_integers(array: Array, what: str) -> None:
    if array.dtype not in (np.int32, np.int64):
        raise ValueError(
            f'expected int32 or int64 in {what} (got {array.dtype})'
        )


def _check_ends(edges: Array, num_sources: int, num_targets: int) -> None:
    for ends, count in zip(edges, (num_sources, num_targets), strict=True):
        if ends.size and not 0 <= ends.min() <= ends.max() < count:
            raise ValueError(
                f'expected nodes 0 to {count - 1} at the ends of edges (got '
                f'{ends.min()} to {ends.max()})'
            )


def _check_data(data: dict[str, Array], count: int, what: str) -> None:
    for name, array in data.items():
        if array.shape[:1] != (count,):
            raise ValueError(
                f"expected '{name}' of {count} {what} (got shape "
                f'{list(array.shape)})'
            )


def _same_length(what: str, *parts: list[Any]) -> None:
    lengths = [len(part) for part in parts]
    if len({*lengths}) > 1:
        raise ValueError(
            f'expected one entry for each {what} in every part (got '
            f'{lengths} entries)'
        )
