import pytest
import torch

from torch_geometric.data import Data, HeteroData

from torch_energy_graph.data import check_graph


def graph(**changes):
    data = Data(
        x=torch.ones(4, 2),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        y=torch.tensor([0, 1, -1, 0]),
        train_mask=torch.ones(4, 3, dtype=torch.bool),
    )
    return data.update(changes)


@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'y': None},
        {'edge_index': torch.zeros(2, 0, dtype=torch.long)},
        {'edge_index': torch.tensor([[0], [0]], dtype=torch.int32)},
        {'x': torch.ones(4, 2).double()},
        {'edge_mask': torch.ones(3, dtype=torch.bool)},
    ],
)
def test_good_graphs_pass(changes):
    check_graph(graph(**changes))


def test_no_nodes_pass():
    empty = torch.zeros(2, 0, dtype=torch.long)
    check_graph(Data(x=torch.zeros(0, 2), edge_index=empty))


def features(value):
    x = torch.ones(4, 2)
    x[1:3, 1] = value
    return x


@pytest.mark.parametrize(
    ('changes', 'match'),
    [
        ({'edge_index': torch.zeros(2, 3)}, r'int64 \(got torch.float32\)'),
        (
            {'edge_index': torch.zeros(3, 2, dtype=torch.long)},
            r'\[2, E\] \(got \[3, 2\]\); did you mean \.t\(\)\?',
        ),
        ({'edge_index': torch.zeros(4, dtype=torch.long)}, r'got \[4\]'),
        ({'edge_index': None}, 'NoneType'),
        ({'x': features(float('nan'))}, r'at 2 nodes, first \[1, 2\]'),
        ({'x': features(float('inf'))}, r'at 2 nodes, first \[1, 2\]'),
        ({'x': torch.ones(4)}, r'\[N, F\] \(got \[4\]\)'),
        ({'x': None}, 'NoneType'),
        ({'x': torch.ones(4, 2).long()}, r'x\.float\(\)'),
        ({'y': torch.tensor([0, 1, 2, 2])}, r'\[2\] at 2 nodes'),
        ({'y': torch.tensor([0, 1])}, r'\[4\] \(got \[2\]'),
        ({'y': torch.zeros(4)}, 'integer labels'),
        ({'train_mask': torch.ones(3, dtype=torch.bool)}, r'\[4, S\]'),
        ({'val_masks': torch.ones(4)}, 'val_masks as bool'),
        ({'labeled_mask': 'all'}, r'got str'),
    ],
)
def test_bad_graphs(changes, match):
    with pytest.raises(ValueError, match=match):
        check_graph(graph(**changes))


@pytest.mark.parametrize('index', [4, -1])
def test_index_out_of_range(index):
    bad = torch.tensor([[0, 1], [1, index]])
    with pytest.raises(IndexError, match='indices 0 to 3'):
        check_graph(graph(edge_index=bad))


def test_more_classes_where_allowed():
    check_graph(graph(y=torch.tensor([0, 1, 2, 6])), binary=False)


def test_heterogeneous_graph():
    with pytest.raises(TypeError, match='to_homogeneous'):
        check_graph(HeteroData())
