import itertools
import struct
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.dgl_writer import FORMATS, dgl_file, graph, node_graph
from torch_energy_graph.data import read_dgl_binary

HOMO = ('_N', '_E', '_N')
GOLDEN = {
    'gadbench_like_coo_i32': 'gadbench_like',
    'gadbench_like_csr_i32': 'gadbench_like',
    'gadbench_like_csc_i32': 'gadbench_like',
    'tfinance_like_coo': 'tfinance_like_coo',
}


def rng():
    return np.random.default_rng(7)


def random_edges(num_edges, num_nodes, dtype=np.int64):
    return rng().integers(num_nodes, size=(2, num_edges)).astype(dtype)


@pytest.fixture
def golden(shared_root, require_file):
    def files(name, arrays):
        folder = shared_root / 'golden' / 'dgl'
        graphs, labels = read_dgl_binary(require_file(folder / f'{name}.bin'))
        assert len(graphs) == 1
        return graphs[0], labels, dict(np.load(folder / f'{arrays}.npz'))

    return files


def same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('name', GOLDEN)
def test_files_of_dgl(name, golden):
    found, labels, arrays = golden(name, GOLDEN[name])
    edges = np.stack([arrays.pop('src'), arrays.pop('dst')])
    np.testing.assert_array_equal(found.edges[HOMO], edges)
    if 'w' in arrays:
        same(found.edge_data[HOMO]['w'], arrays.pop('w'))
    assert set(found.node_data['_N']) == set(arrays)
    for key, array in arrays.items():
        same(found.node_data['_N'][key], array)
    assert found.num_nodes == {'_N': len(arrays['label'])}
    assert labels == {}


def test_file_of_dgl_with_three_relations_in_all_formats(golden):
    found, labels, arrays = golden('hetero_all', 'hetero_all')
    assert found.num_nodes == {'review': 40}
    for name in ('net_rur', 'net_rtr', 'net_rsr'):
        edges = np.stack([arrays[f'{name}_src'], arrays[f'{name}_dst']])
        same(found.edges['review', name, 'review'], edges)
    for key in ('feature', 'label'):
        same(found.node_data['review'][key], arrays[key])
    assert labels['labels'].tolist() == [0, 1, 2]


def test_file_of_dgl_without_edges(shared_root, require_file):
    path = require_file(shared_root / 'golden' / 'dgl' / 'empty.bin')
    (found,), _ = read_dgl_binary(path)
    assert found.num_nodes == {'_N': 5}
    assert found.edges[HOMO].shape == (2, 0)
    assert found.node_data['_N']['feature'].shape == (5, 3)


@pytest.mark.parametrize('dtype', [np.int32, np.int64])
@pytest.mark.parametrize(
    'formats',
    [c for n in (1, 2, 3) for c in itertools.combinations(FORMATS, n)],
    ids='-'.join,
)
def test_every_set_of_formats(formats, dtype, tmp_path):
    first = random_edges(60, 9, dtype)
    second = np.stack([random_edges(5, 4, dtype)[0]] * 2)
    nodes = {
        'user': (
            9,
            {'mark': np.arange(9) % 2 == 0, 'half': np.eye(9, 2, 0, 'f2')},
        ),
        'item': (4, {}),
    }
    relations = {
        ('user', 'knows', 'user'): first,
        ('user', 'buys', 'item'): second,
    }
    weight = {('user', 'knows', 'user'): {'w': np.arange(60.0)}}
    path = tmp_path / 'graph.bin'
    path.write_bytes(
        dgl_file(
            graph(nodes, relations, weight, formats),
            graph({'_N': (0, {})}, {}),
            labels={'y': np.array([3, 4], dtype=np.uint8)},
        )
    )
    (found, empty), labels = read_dgl_binary(path)
    assert found.num_nodes == {'user': 9, 'item': 4}
    assert set(found.edges) == set(relations)
    for key, edges in relations.items():
        same(found.edges[key], edges)
    for key in ('mark', 'half'):
        same(found.node_data['user'][key], nodes['user'][1][key])
    same(
        found.edge_data['user', 'knows', 'user']['w'],
        np.arange(60.0),
    )
    assert empty.num_nodes == {'_N': 0}
    assert empty.edges == {}
    same(labels['y'], np.array([3, 4], dtype=np.uint8))


def valid(formats=FORMATS):
    return node_graph(
        random_edges(20, 6),
        formats,
        feature=rng().normal(size=(6, 3)).astype(np.float32),
        label=np.arange(6) % 2,
    )


def read_and_measure(content):
    """The error in reading these bytes, if any, and the peak of memory."""
    error = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'graph.bin')
        path.write_bytes(content)
        tracemalloc.start()
        try:
            read_dgl_binary(path)
        except ValueError as caught:
            error = str(caught)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return error, peak


ALLOWANCE = 1 << 18  # of the interpreter: messages, tracebacks, buffers


def test_every_truncation_is_found():
    content = valid()
    # the garbage before offset 4096 does not count
    for length in (*range(0, 5000, 97), *range(4096, len(content), 11)):
        error, peak = read_and_measure(content[:length])
        assert 'graph.bin' in error, length
        assert peak < len(content) + ALLOWANCE


def places(content, value, form):
    """Offsets of all values of a kind in the file."""
    wanted, at = struct.pack(form, value), -1
    while (at := content.find(wanted, at + 1)) >= 0:
        yield at


@pytest.mark.parametrize('claim', [1 << 33, (1 << 62) - 1, -1, -(1 << 63)])
def test_false_sizes_are_refused_without_memory(claim):
    content = valid()
    sizes = {6, 7, 18, 20, 24, 48, 56, 72, 160}
    found = {at for size in sizes for at in places(content, size, '<q')}
    found = sorted(at for at in found if at >= 4096)
    assert len(found) > 30
    for at in found:
        lie = content[:at] + struct.pack('<q', claim) + content[at + 8 :]
        _, peak = read_and_measure(lie)
        assert peak < 4 * len(content) + ALLOWANCE, at


def test_a_shape_of_zero_and_huge_dimensions():
    content = valid()
    shape = struct.pack('<qqq', 6, 3, 72)
    assert content.count(shape) == 1
    lie = content.replace(shape, struct.pack('<qqq', 0, 1 << 62, 0))
    assert 'graph.bin' in read_and_measure(lie)[0]


def flipped(at, old, new):
    def change(content):
        assert content[at : at + len(old)] == old
        return content[:at] + new + content[at + len(old) :]

    return change


def swapped(old, new):
    def change(content):
        assert old in content
        return content.replace(old, new)

    return change


ARRAY_HEAD = struct.pack('<iiiBBH', 1, 0, 2, 2, 32, 1)
BAD = {
    'file': (flipped(0, b'\x3f', b'\x3e'), 'graph file with magic number'),
    'version': (flipped(8, b'\x02', b'\x01'), 'version 2'),
    'no heterograph': (flipped(16, b'\x02', b'\x01'), 'type 2'),
    'more graphs': (flipped(24, b'\x01', b'\x02'), 'bytes at offset'),
    'start': (flipped(4096, b'\x10\x10', b'\x0f\x10'), 'after the labels'),
    'far start': (flipped(4103, b'\x00', b'\x01'), 'an offset up to'),
    'GPU': (
        swapped(ARRAY_HEAD, b'\x02' + ARRAY_HEAD[1:]),
        'numbers on the CPU',
    ),
    'lanes': (
        swapped(ARRAY_HEAD, ARRAY_HEAD[:-2] + b'\x02\x00'),
        '2 lanes',
    ),
    'complex': (
        swapped(ARRAY_HEAD, ARRAY_HEAD[:-4] + b'\x05' + ARRAY_HEAD[-3:]),
        'kind 5',
    ),
    'dimensions': (
        swapped(ARRAY_HEAD, ARRAY_HEAD[:8] + b'\xff' + ARRAY_HEAD[9:]),
        '0 to 32 dimensions',
    ),
    'name': (swapped(b'feature', b'featur\xff'), 'utf-8'),
}


@pytest.mark.parametrize('case', BAD)
def test_damaged_files_say_where(case, tmp_path):
    change, match = BAD[case]
    path = tmp_path / 'graph.bin'
    path.write_bytes(change(valid()))
    with pytest.raises(ValueError, match=match) as caught:
        read_dgl_binary(path)
    assert 'graph.bin' in str(caught.value)


@pytest.mark.parametrize('formats', [('coo',), ('csc',)])
def test_edges_to_absent_nodes(formats, tmp_path):
    edges = np.array([[0, 6], [1, 2]])
    path = tmp_path / 'graph.bin'
    path.write_bytes(node_graph(edges, formats, label=np.zeros(6)))
    with pytest.raises(ValueError, match='nodes 0 to 5 at the ends'):
        read_dgl_binary(path)


def test_data_of_another_length(tmp_path):
    content = graph({'_N': (6, {'label': np.zeros(5)})}, {})
    path = tmp_path / 'graph.bin'
    path.write_bytes(dgl_file(content))
    with pytest.raises(ValueError, match="'label' of 6 nodes"):
        read_dgl_binary(path)


def test_repeated_edge_numbers(tmp_path):
    ids = np.argsort(random_edges(20, 6)[0], kind='stable')
    twice = ids.copy()
    twice[1] = twice[0]
    path = tmp_path / 'graph.bin'
    content = valid(('csr',))
    assert content.count(ids.tobytes()) == 1
    path.write_bytes(content.replace(ids.tobytes(), twice.tobytes()))
    with pytest.raises(ValueError, match='each edge number 0 to 19 once'):
        read_dgl_binary(path)


def test_a_missing_file_is_called_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_dgl_binary(tmp_path / 'absent.bin')


EDITS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 31), st.integers(4096, len(valid()) - 1)),
        st.one_of(
            st.binary(min_size=1, max_size=8),
            st.sampled_from(
                [b'\xff' * 8, b'\x00' * 8, b'\xff' * 7 + b'\x7f', b'\x01']
            ),
        ),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200)
@given(edits=EDITS, cut=st.one_of(st.none(), st.integers(0, len(valid()))))
def test_fuzzed_files_are_read_or_refused(edits, cut):
    content = bytearray(valid())
    for at, new in edits:
        content[at : at + len(new)] = new
    _, peak = read_and_measure(bytes(content[:cut]))
    assert peak < 4 * len(content) + ALLOWANCE


@settings(max_examples=50)
@given(content=st.binary(max_size=200))
def test_noise_is_refused(content):
    assert 'graph.bin' in read_and_measure(content)[0]
