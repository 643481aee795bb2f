import hashlib
import json

import numpy as np
import pytest
import torch

from torch_energy_graph.datasets import (
    TemporalSignal,
    load_temporal,
    temporal_download,
)

STATIC = {
    'FX': [[0.5, 1.0, 2.0], [1.5, 2.0, 3.0]],
    'edges': [[0, 1], [1, 0], [2, 2]],
    'node_ids': {'b': 1, 'a': 0, 'c': 2},
}
DYNAMIC = {
    'y': [[1, 2], [3, 4]],
    'time_periods': 2,
    'edge_mapping': {
        # steps in any order; the second has no edges
        'edge_index': {'1': [], '0': [[0, 1], [1, 1]]},
        'edge_weight': {'1': [], '0': [7.0, 0.5]},
    },
}


@pytest.fixture
def place_json(place):
    def write(name, tree):
        return place(name, json.dumps(tree).encode())

    return write


def test_json_with_one_graph(place_json, folder):
    path = place_json('mine.json', STATIC)
    series = load_temporal('mine', folder)
    assert series.path == path
    assert torch.equal(series.signal, torch.tensor(STATIC['FX']))
    assert series.edge_index.tolist() == [[0, 1, 2], [1, 0, 2]]
    assert series.node_names == ('a', 'b', 'c')
    for step in (0, 1):
        edges, weight = series.graph(step)
        assert torch.equal(edges, series.edge_index)
        assert weight is None
    with pytest.raises(IndexError, match='step from 0 to 1'):
        series.graph(2)


def test_json_with_a_graph_per_step(place_json, folder):
    place_json('torch_geometric_temporal/mine.json', DYNAMIC)
    series = load_temporal('mine', folder)
    edges, weight = series.graph(0)
    assert edges.tolist() == [[0, 1], [1, 1]]
    assert weight.tolist() == [7.0, 0.5]
    edges, weight = series.graph(1)
    assert edges.shape == (2, 0)
    assert weight.shape == (0,)
    assert 'a graph per step' in repr(series)


def test_weights_and_the_npz_form(place, place_json, folder):
    tree = {'X': [[0.0, 1.0]], 'edges': [[1, 0]], 'weights': [0.25]}
    place_json('form.json', tree)
    old = load_temporal('form', folder)
    arrays = {
        'signal': np.array([[0.0, 1.0]]),
        'edge_index': np.array([[1], [0]]),
        'edge_weight': np.array([0.25]),
    }
    path = place('form.npz', arrays)  # found first
    new = load_temporal('form', folder)
    assert new.path == path
    for one, other in zip(
        (old.signal, *old.graph(0)), (new.signal, *new.graph(0)), strict=True
    ):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ('name', 'shape', 'edges'),
    [
        ('chickenpox', (521, 20), 102),
        ('england_covid', (61, 129), 82529),
        ('pedalme_london', (35, 15), 225),
    ],
)
def test_public_files(
    name, shape, edges, data_root, shared_root, require_file
):
    require_file(data_root / f'{name}.npz')
    raw = shared_root / 'data_raw' / 'torch_geometric_temporal'
    path = require_file(raw / f'{name}.json')
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == temporal_download.SHA256[name]
    series = load_temporal(name, data_root)
    from_json = load_temporal(name, raw)
    assert from_json.path == path
    assert series.signal.shape == shape
    assert series.edge_index.size(1) == edges
    assert torch.equal(series.signal, from_json.signal)
    assert torch.equal(series.edge_index, from_json.edge_index)
    for step in range(0, shape[0], 7):
        pairs = zip(series.graph(step), from_json.graph(step), strict=True)
        for one, other in pairs:
            assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'FX': None}, 'expected one of'),
        ({'FX': [[0.5, None, 1.0]]}, 'finite values'),
        ({'FX': [0.5, 1.0]}, r'shape \[T, N\]'),
        ({'edges': [[0, 3]]}, 'node indices 0 to 2'),
        ({'edges': [[0, 1, 2]]}, 'bad signal'),
        ({'edges': None}, "'edges'"),
        ({'weights': [1.0]}, r'edge_weight of shape \[3\]'),
        ({'weights': [1.0, -1.0, 2.0]}, 'edge_weight >= 0'),
        ({'node_ids': {'a': 0}}, '3 node names'),
    ],
)
def test_bad_json(change, message, place_json, folder):
    tree = {**STATIC, **change}
    tree = {key: value for key, value in tree.items() if value is not None}
    place_json('mine.json', tree)
    with pytest.raises(ValueError, match=r"bad signal in '.*mine.json'") as e:
        load_temporal('mine', folder)
    assert e.match(message)


def test_bad_pointers_and_files(place, folder):
    signal, edges = torch.zeros(2, 3), torch.tensor([[0, 1], [1, 2]])
    for ptr in ([0, 2], [0, 1, 1], [1, 1, 2], [0, 3, 2]):
        with pytest.raises(ValueError, match='edge_ptr of shape'):
            TemporalSignal('x', signal, edges, edge_ptr=torch.tensor(ptr))
    place('torn.json', b'{"FX": [[')
    place('torn.npz', b'')
    with pytest.raises(ValueError, match=r'torn\.npz'):
        load_temporal('torn', folder)
    (folder / 'torn.npz').unlink()
    with pytest.raises(ValueError, match=r'torn\.json'):
        load_temporal('torn', folder)
    place('few.npz', {'signal': np.zeros((2, 2))})
    with pytest.raises(ValueError, match='expected arrays edge_index'):
        load_temporal('few', folder)


def test_nothing_is_fetched_unasked(folder, monkeypatch):
    def no_network(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(
        temporal_download.urllib.request, 'urlopen', no_network
    )
    with pytest.raises(FileNotFoundError, match='torch_geometric_temporal'):
        load_temporal('chickenpox', folder)


@pytest.fixture
def publisher(folder, monkeypatch):
    """A folder in the place of the publisher's address."""
    shelf = folder / 'publisher'
    shelf.mkdir()
    content = json.dumps(STATIC).encode()
    (shelf / 'chickenpox.json').write_bytes(content)
    monkeypatch.setattr(
        temporal_download, 'URL', f'{shelf.as_uri()}/{{0}}.json'
    )
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(temporal_download.SHA256, 'chickenpox', digest)
    return shelf


def test_download_into_root_or_cache(publisher, folder):
    series = load_temporal('chickenpox', folder / 'new', download=True)
    assert series.path == folder / 'new' / 'chickenpox.json'
    assert series.num_nodes == 3
    (publisher / 'chickenpox.json').unlink()
    # it is here now, so there is no need to ask again
    assert load_temporal('chickenpox', folder / 'new', download=True).path
    with pytest.raises(OSError, match=r'cannot fetch .*\.cache'):
        load_temporal('chickenpox', download=True)


def test_a_changed_file_is_not_kept(publisher, folder):
    (publisher / 'chickenpox.json').write_bytes(b'{}')
    with pytest.raises(ValueError, match='has the SHA-256'):
        load_temporal('chickenpox', folder / 'new', download=True)
    assert not (folder / 'new').exists()
    with pytest.raises(ValueError, match="'name' among chickenpox"):
        load_temporal('unknown', folder, download=True)
