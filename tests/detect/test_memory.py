import pytest

from torch_energy_graph.detect.memory import parts_that_fit, step_bytes

SHAPE = {'num_features': 10, 'hidden_channels': 4, 'heads': 2}


def test_bytes_by_hand():
    # nodes: 10 + 6 * 4 + (8 * 4 + 2 * 16) floats; edges: 4 * 2 floats
    assert step_bytes(3, 5, **SHAPE) == 4 * (3 * 98 + 40)


def test_the_benchmarks_parts_if_all_fits():
    assert parts_that_fit(10_000, 10_000, None, **SHAPE) == 8
    assert parts_that_fit(10_000, 10_000, 2**40, **SHAPE) == 8


def test_small_graphs_have_fewer_parts():
    assert parts_that_fit(70, 10, None, **SHAPE) == 2
    assert parts_that_fit(5, 10, None, **SHAPE) == 1


@pytest.mark.parametrize('limit', [2e4, 1e5, 1e6])
def test_a_step_fits(limit):
    parts = parts_that_fit(10_000, 50_000, limit, **SHAPE)
    assert step_bytes(10_000 / parts, 50_000 / parts**2, **SHAPE) <= limit
    assert parts >= 8
