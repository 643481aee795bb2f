import json

import numpy as np
import pytest
import torch

from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader

from torch_energy_graph.datasets.npz_graph_set import NpzGraphSet


def arrays():
    """Two graphs: a path of three nodes, and two nodes without edge."""
    return {
        'x': np.arange(10, dtype=np.float32).reshape(5, 2),
        'node_ptr': np.array([0, 3, 5]),
        'edge_ptr': np.array([0, 4, 4]),
        'edge_index': np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
        'edge_attr': np.eye(4, dtype=np.uint8),
        'y': np.array([1, 0]),
        'num_node_attributes': np.array(1),
        'meta': np.array(json.dumps({'licence': 'none'})),
    }


@pytest.fixture
def save(tmp_path):
    def function(**changes):
        found = {**arrays(), **changes}
        found = {k: v for k, v in found.items() if v is not None}
        np.savez(tmp_path / 'tiny.npz', **found)
        return tmp_path

    return function


def test_graphs_and_batches(save):
    graphs = NpzGraphSet('tiny', save())
    assert str(graphs) == "NpzGraphSet('tiny', 2)"
    assert graphs.num_classes == 2
    assert graphs.num_node_attributes == 1
    assert graphs.meta == {'licence': 'none'}
    first, second = graphs
    assert first.x.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert first.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert torch.equal(first.edge_attr, torch.eye(4))
    assert (first.y.item(), second.y.item()) == (1, 0)
    assert second.x.tolist() == [[6, 7], [8, 9]]
    assert second.edge_index.shape == (2, 0)
    batch = next(iter(DataLoader(graphs[[1, 0]], 2)))
    assert batch.batch.tolist() == [0, 0, 1, 1, 1]
    assert batch.edge_index.tolist() == [[2, 3, 3, 4], [3, 2, 4, 3]]


def test_transform_at_access(save):
    graphs = NpzGraphSet('tiny', save(), lambda data: data.update({'z': 3}))
    assert graphs[1].z == 3


def test_what_may_be_absent(save):
    root = save(edge_attr=None, num_node_attributes=None, meta=None)
    graphs = NpzGraphSet('tiny', root)
    assert graphs.num_node_attributes == 0
    assert graphs[0].edge_attr is None


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'y': None}, 'expected arrays y'),
        ({'node_ptr': np.array([0, 5])}, 'node_ptr to rise from 0 to 5 in 2'),
        ({'node_ptr': np.array([0, 3, 4])}, 'node_ptr to rise'),
        ({'edge_ptr': np.array([0, 5, 4])}, 'edge_ptr to rise'),
        ({'edge_index': np.array([[0, 1, 1, 3], [1, 0, 2, 1]])}, 'counted'),
        ({'edge_index': np.array([[0, 1, 1, -1], [1, 0, 2, 1]])}, 'counted'),
        ({'edge_attr': np.eye(3)}, 'each of the 4 edges'),
    ],
)
def test_damaged_files(save, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        NpzGraphSet('tiny', save(**changes))
    assert 'tiny.npz' in str(caught.value)


def test_absent_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r'tu/absent\.npz'):
        NpzGraphSet('absent', tmp_path)


def test_the_graphs_are_those_of_pyg(
    data_root, shared_root, require_file, tmp_path
):
    require_file(data_root / 'tu/MUTAG.npz')
    raw = shared_root / 'data_raw/TUDataset/MUTAG/raw'
    require_file(raw / 'MUTAG_A.txt')
    (tmp_path / 'MUTAG').mkdir()
    (tmp_path / 'MUTAG/raw').symlink_to(raw)
    ours, theirs = (
        NpzGraphSet('MUTAG', data_root),
        TUDataset(tmp_path, 'MUTAG'),
    )
    assert len(ours) == len(theirs) == 188
    for one, other in zip(ours, theirs, strict=True):
        for key in ('x', 'edge_index', 'edge_attr', 'y'):
            assert torch.equal(one[key], other[key]), key
