import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat
from scipy.sparse import csc_array, csc_matrix

from torch_energy_graph.data import read_fraud_mat

# research counts: nodes, features, anomalies, directed edges
REAL = {
    'Amazon_UPU': (10_224, 25, 693, 351_216),
    'YelpChi_RUR': (23_831, 32, 1_217, 98_630),
}


def adjacency(edges, num_nodes):
    row, col = np.array(edges).T
    return csc_array((np.ones(len(edges)), (row, col)), (num_nodes, num_nodes))


def features():
    return np.array([[1, 0], [0, 0], [0.5, 2], [0, 3]])


def full_form():
    return {
        'features': csc_array(features()),
        'label': np.array([[0, 1, 0, 0]]),
        'homo': adjacency([(0, 1), (1, 0), (2, 1), (3, 3)], 4),
        'net_rur': adjacency([(0, 1), (1, 0)], 4),
        'net_rtr': adjacency([(2, 1), (0, 1), (3, 3)], 4),
    }


def single_form():
    full = full_form()
    return {
        'Attributes': full['features'],
        'Label': full['label'].T,
        'Network': full['net_rtr'],
    }


@pytest.fixture
def write(tmp_path):
    def save(content, **options):
        path = tmp_path / 'graph.mat'
        savemat(path, content, **options)
        return path

    return save


@pytest.mark.parametrize('name', REAL)
def test_real_files(name, shared_root, require_file):
    folder = shared_root / 'data_raw' / 'fraud_mat'
    graph = read_fraud_mat(require_file(folder / f'{name}.mat'))
    edges = graph.relations['network']
    counts = (*graph.x.shape, graph.y.sum(), edges.shape[1])
    assert counts == REAL[name]
    assert edges.min() >= 0
    assert edges.max() < len(graph.y)


@pytest.mark.parametrize(
    ('name', 'npz'),
    [('Amazon_UPU', 'amazon_fraud_upu'), ('YelpChi_RUR', 'yelpchi_rur')],
)
def test_real_files_equal_the_npz_graphs(
    name, npz, shared_root, data_root, require_file
):
    folder = shared_root / 'data_raw' / 'fraud_mat'
    graph = read_fraud_mat(require_file(folder / f'{name}.mat'))
    arrays = np.load(require_file(data_root / f'{npz}.npz'))
    np.testing.assert_array_equal(graph.x, arrays['x'])
    np.testing.assert_array_equal(graph.y, arrays['y'])
    edges = graph.relations['network']
    np.testing.assert_array_equal(edges, arrays['edge_index'])


@pytest.mark.parametrize('compressed', [False, True])
def test_full_form(compressed, write):
    graph = read_fraud_mat(write(full_form(), do_compression=compressed))
    assert graph.x.dtype == np.float32
    assert graph.x.tolist() == features().tolist()
    assert graph.y.tolist() == [0, 1, 0, 0]
    assert {k: v.tolist() for k, v in graph.relations.items()} == {
        'rtr': [[0, 2, 3], [1, 1, 3]],
        'rur': [[0, 1], [1, 0]],
    }


@pytest.mark.parametrize('turn', [False, True])
def test_single_relation_form(turn, write):
    content = single_form()
    if turn:
        content['Label'] = content['Label'].T
    content['Attributes'] = features()  # dense is fine
    graph = read_fraud_mat(write(content))
    assert graph.x.tolist() == features().tolist()
    assert graph.y.tolist() == [0, 1, 0, 0]
    assert graph.relations['network'].tolist() == [[0, 2, 3], [1, 1, 3]]


def test_stored_zeros_are_no_edges(write):
    content = single_form()
    content['Network'] = csc_matrix(
        (np.array([1.0, 0.0]), ([0, 1], [1, 0])), (4, 4)
    )
    graph = read_fraud_mat(write(content))
    assert graph.relations['network'].tolist() == [[0], [1]]


def broken_columns():
    matrix = csc_matrix(adjacency([(0, 1), (1, 0)], 4))
    matrix.indices[0] = 9
    return matrix


BAD = {
    'other keys': (lambda c: c.pop('Network'), 'expected features, label'),
    'labels': (
        lambda c: c.update(Label=np.array([[0, 1, 2, 0]])),
        'labels 0 and 1',
    ),
    'label shape': (
        lambda c: c.update(Label=np.zeros((2, 2))),
        r'\[1, N\] or \[N, 1\]',
    ),
    'length': (
        lambda c: c.update(Label=np.zeros((1, 3))),
        'features of 3 nodes',
    ),
    'text': (
        lambda c: c.update(Attributes=np.array(['ab', 'cd', 'ef', 'gh'])),
        'expected features, label',
    ),
    'dense network': (
        lambda c: c.update(Network=np.eye(4)),
        "sparse matrix of 4 nodes in 'Network'",
    ),
    'weights': (
        lambda c: c.update(Network=2 * adjacency([(0, 1)], 4)),
        "entries 0 and 1 in 'Network'",
    ),
    'size': (
        lambda c: c.update(Network=adjacency([(0, 1)], 5)),
        'sparse matrix of 4 nodes',
    ),
    'row beyond the last': (
        lambda c: c.update(Network=broken_columns()),
        'rows 0 to 3',
    ),
}


@pytest.mark.parametrize('case', BAD)
def test_bad_content_names_the_file(case, write):
    change, match = BAD[case]
    content = single_form()
    change(content)
    path = write(content)
    with pytest.raises(ValueError, match=match) as caught:
        read_fraud_mat(path)
    assert 'graph.mat' in str(caught.value)


def with_version(raw):
    return raw[:124] + b'\x00\x02' + raw[126:]


def with_order(raw):
    return raw[:126] + b'MI' + raw[128:]


@pytest.mark.parametrize('change', [with_version, with_order])
def test_other_versions(change, write):
    path = write(single_form())
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=r"version 5 .* save it .*'-v7'"):
        read_fraud_mat(path)


def test_complex_numbers(write):
    content = single_form()
    content['Attributes'] = features() * 1j
    with pytest.raises(ValueError, match="real numbers in 'Attributes'"):
        read_fraud_mat(write(content))


@pytest.mark.parametrize('kind', [np.uint8, np.int16, np.float32, np.bool_])
def test_types_of_numbers(kind, write):
    content = single_form()
    content['Label'] = content['Label'].astype(kind)
    content['Attributes'] = csc_array(features().astype(np.float32))
    graph = read_fraud_mat(write(content))
    assert graph.y.tolist() == [0, 1, 0, 0]
    assert graph.x.tolist() == features().tolist()


FILES = {}  # valid files, by whether they are compressed


def valid(compressed):
    if compressed not in FILES:
        file = BytesIO()
        savemat(file, full_form(), do_compression=compressed)
        FILES[compressed] = file.getvalue()
    return FILES[compressed]


@settings(max_examples=200)
@given(
    compressed=st.booleans(),
    edits=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.one_of(
                st.binary(min_size=1, max_size=4),
                st.sampled_from(
                    [b'\xff' * 4, b'\xff\xff\xff\x7f', b'\x00' * 4]
                ),
            ),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_fuzzed_files_are_read_or_refused(compressed, edits):
    content = bytearray(valid(compressed))
    for share, new in edits:
        at = 124 + int(share * (len(content) - 125))
        content[at : at + len(new)] = new
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'graph.mat')
        path.write_bytes(content)
        try:
            read_fraud_mat(path)
        except ValueError as error:
            message = str(error)
        else:
            message = 'graph.mat'
    assert 'graph.mat' in message


@pytest.mark.parametrize('share', [0.0, 0.02, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize('compressed', [False, True])
def test_truncated_files(share, compressed, write):
    path = write(full_form(), do_compression=compressed)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(ValueError, match=r'cannot read .*graph\.mat'):
        read_fraud_mat(path)


def test_noise(tmp_path):
    path = tmp_path / 'graph.mat'
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(ValueError, match=r'cannot read .*graph\.mat'):
        read_fraud_mat(path)


def test_a_missing_file_is_called_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_fraud_mat(tmp_path / 'absent.mat')
