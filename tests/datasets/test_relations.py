import numpy as np
import pytest

from torch_energy_graph.datasets.relations import join_relations

TWO = {
    'b': np.array([[2, 0], [1, 1]]),
    'a': np.array([[0, 0, 3], [1, 1, 3]], dtype=np.int32),
}


def test_typed_edges_keep_relations_apart():
    fields = join_relations(TWO, 'typed')
    assert fields['edge_index'].tolist() == [[2, 0, 0, 0, 3], [1, 1, 1, 1, 3]]
    assert fields['edge_type'].tolist() == [0, 0, 1, 1, 1]


def test_merged_edges_keep_duplicates():
    fields = join_relations(TWO, 'merged')
    assert set(fields) == {'edge_index'}
    assert fields['edge_index'].tolist() == [[2, 0, 0, 0, 3], [1, 1, 1, 1, 3]]


def test_simple_edges_count_once():
    fields = join_relations(TWO, 'simple')
    assert set(fields) == {'edge_index'}
    assert fields['edge_index'].tolist() == [[0, 2, 3], [1, 1, 3]]


def test_one_relation_needs_no_types():
    fields = join_relations({'a': TWO['a']}, 'typed')
    assert set(fields) == {'edge_index'}


def test_another_word():
    with pytest.raises(ValueError, match='typed, merged, simple'):
        join_relations(TWO, 'both')
