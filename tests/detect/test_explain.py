import copy

import numpy as np
import pytest

from tests.detect.graphs import SMALL
from torch_energy_graph.detect import EnergyFraudDetector


@pytest.fixture(scope='module')
def explained(fitted, graph):
    before = fitted.predict_proba(graph)
    explanation = fitted.explain(graph, 7, top=3)
    # explaining leaves the detector as it was
    assert np.array_equal(fitted.predict_proba(graph), before)
    return explanation


def test_the_parts_add_up_to_the_energy(fitted, graph, explained):
    total = sum(row['energy'] for row in explained.parts)
    assert total == pytest.approx(explained.energy, abs=1e-10)
    assert {row['part'] for row in explained.parts} == {
        'interaction',
        'edge features',
        'entropy',
        'memories',
    }
    # the layer's own energy of the whole graph, in float32
    energy = -fitted.score_samples(graph)[7]
    assert explained.energy == pytest.approx(energy, rel=1e-4)


def test_a_neighbour_is_cut_off_exactly(fitted, graph, explained):
    assert explained.probability == pytest.approx(
        fitted.predict_proba(graph)[7, 1], abs=1e-6
    )
    src, dst = graph.edge_index
    linked = {*src[dst == 7].tolist(), *dst[src == 7].tolist()} - {7}
    assert explained.num_neighbors == len(linked)
    assert len(explained.neighbors) == 3
    for row in explained.neighbors:
        j = row['neighbor']
        cut = (src == 7) & (dst == j) | (src == j) & (dst == 7)
        assert cut.any()
        rest = copy.copy(graph)
        rest.edge_index = graph.edge_index[:, ~cut]
        rest.edge_type = graph.edge_type[~cut]
        rest.edge_attr = graph.edge_attr[~cut]
        prob = fitted.predict_proba(rest)[7, 1]
        assert row['without'] == pytest.approx(prob, abs=1e-6)
        assert row['effect'] == explained.probability - row['without']
    effects = [abs(row['effect']) for row in explained.neighbors]
    assert effects == sorted(effects, reverse=True)


def test_shares_of_features(explained):
    shares = {row['feature']: row['share'] for row in explained.features}
    assert {*shares} == {'x0', 'x1', 'x2', 'x3'}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares['x3'] < 0.05  # constant


def test_tables_and_picture(explained):
    pytest.importorskip('pandas')
    table = explained.energy_table()
    assert table['energy'].sum() == pytest.approx(explained.energy, abs=1e-10)
    assert len(explained.neighbor_table()) == 3
    assert explained.feature_table()['share'].is_monotonic_decreasing
    pytest.importorskip('matplotlib')
    ax = explained.plot()
    assert len(ax.lines) == 3
    assert ax.get_title().startswith('7: probability')


def test_a_node_alone(graph):
    data = copy.copy(graph)
    kept = ~(data.edge_index == 7).any(dim=0)
    data.edge_index = data.edge_index[:, kept]
    del data.edge_type, data.edge_attr
    data.node_id = [f'acc-{i}' for i in range(240)]
    short = {**SMALL, 'epochs': 2, 'ensemble': 1}
    detector = EnergyFraudDetector(**short).fit(data)
    explanation = detector.explain(data, 'acc-7', features=False)
    assert explanation.neighbors == explanation.features == []
    assert [row['part'] for row in explanation.parts] == ['memories']
    with pytest.raises(ValueError, match=r"no node 7 .*'acc-0'"):
        detector.explain(data, 7)
