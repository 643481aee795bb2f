"""Writes DGL's binary form, version 2: data for the tests of its readers."""

import struct

import numpy as np

MAGIC = {
    'file': 0xDD2E4FF046B4A13F,
    'graph': 0xDD589FBE35224ABF,
    'metagraph': 0xDD3C5FFE20046ABF,
    'relation': 0xDD2E60F0F6B4A127,
    'csr': 0xDD6CD31205DFF127,
    'coo': 0xDD61FFD305DFF127,
    'array': 0xDD5E40F096B4A13F,
}
FORMATS = ('coo', 'csr', 'csc')
KINDS = {'i': 0, 'u': 1, 'f': 2, 'b': 1}


def u64(*values):
    return struct.pack(f'<{len(values)}Q', *values)


def i64(*values):
    return struct.pack(f'<{len(values)}q', *values)


def array(data):
    data = np.ascontiguousarray(data)
    bits = 1 if data.dtype == bool else 8 * data.dtype.itemsize
    kind = KINDS[data.dtype.kind]
    head = struct.pack('<iiiBBH', 1, 0, data.ndim, kind, bits, 1)
    return b''.join(
        [
            u64(MAGIC['array'], 0),
            head,
            i64(*data.shape, data.nbytes),
            data.tobytes(),
        ]
    )


def string(text):
    return u64(len(text.encode())) + text.encode()


def dictionary(data):
    pairs = [string(name) + array(value) for name, value in data.items()]
    return u64(len(data)) + b''.join(pairs)


def csr(rows, cols, num_rows, num_cols):
    order = np.argsort(rows, kind='stable')
    ptr = np.searchsorted(rows[order], np.arange(num_rows + 1))
    parts = [ptr.astype(rows.dtype), cols[order], order.astype(rows.dtype)]
    return b''.join(
        [
            u64(MAGIC['csr']),
            i64(num_rows, num_cols),
            *map(array, parts),
            b'\x00',
        ]
    )


def coo(rows, cols, num_rows, num_cols):
    return b''.join(
        [
            u64(MAGIC['coo']),
            i64(num_rows, num_cols),
            *map(array, (rows, cols, np.empty(0, rows.dtype))),
            b'\x00\x00',
        ]
    )


def metagraph(ends, num_types):
    rows, cols = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return u64(MAGIC['metagraph']) + csr(rows, cols, num_types, num_types)


def relation(edges, sizes, formats):
    src, dst = edges
    code = (1 << 40) + sum(1 << FORMATS.index(name) for name in formats)
    blocks = [u64(MAGIC['relation']), i64(code, code)]
    for name in FORMATS:
        if name not in formats:
            continue
        blocks.append(metagraph([(0, 0)], 1))
        if name == 'coo':
            blocks.append(coo(src, dst, *sizes))
        elif name == 'csr':
            blocks.append(csr(src, dst, *sizes))
        else:
            blocks.append(csr(dst, src, *sizes[::-1]))
    return b''.join(blocks)


def graph(nodes, relations, edge_data=None, formats=('coo',)):
    """One graph.

    `nodes`: by type, number of nodes and their arrays. `relations`: by
    (source type, name, target type), edges [2, E].
    """
    types = list(nodes)
    ends = [(types.index(s), types.index(t)) for s, _, t in relations]
    edge_data = edge_data or {}
    units = [
        relation(edges, (nodes[s][0], nodes[t][0]), formats)
        for (s, _, t), edges in relations.items()
    ]
    data = [dictionary(arrays) for _, arrays in nodes.values()]
    of_edges = [dictionary(edge_data.get(key, {})) for key in relations]
    return b''.join(
        [
            u64(MAGIC['graph']),
            metagraph(ends, len(types)),
            u64(len(units)),
            *units,
            u64(len(types)),
            i64(*(count for count, _ in nodes.values())),
            u64(len(data)),
            *data,
            u64(len(of_edges)),
            *of_edges,
            u64(len(types)),
            *map(string, types),
            u64(len(relations)),
            *(string(name) for _, name, _ in relations),
        ]
    )


def dgl_file(*graphs, labels=None):
    """A whole file of graphs."""
    head = u64(MAGIC['file'], 2, 2, len(graphs)).ljust(4096, b'\xa5')
    labels = dictionary(labels or {})
    start = u64(len(head) + 8 + len(labels))
    return b''.join([head, start, labels, *graphs])


def node_graph(edges, formats=('coo',), **arrays):
    """A file of one graph with one type of nodes and one of edges."""
    num_nodes = len(next(iter(arrays.values())))
    return dgl_file(
        graph(
            {'_N': (num_nodes, arrays)},
            {('_N', '_E', '_N'): edges},
            formats=formats,
        )
    )
