import pytest

from torch_energy_graph.bench import Unit
from torch_energy_graph.bench.picture import draw
from torch_energy_graph.bench.ranking import (
    Ranking,
    critical_difference,
    rank,
)


def table(dataset, **values):
    return [
        (
            Unit(dataset, model, 'et-40pct', 0, 0, {}),
            {'status': 'ok', 'test': {'auprc': value}},
        )
        for model, value in values.items()
    ]


def test_mean_ranks_with_ties():
    found = rank(
        [table('a', p=0.9, q=0.5, r=0.5), table('b', p=0.1, q=0.3, r=0.2, s=1)]
    )
    assert found.ranks == {'q': 1.75, 'p': 2.0, 'r': 2.25}
    assert (found.tables, found.omitted) == (2, ['s'])
    assert 'Not in every table: s.' in found.text()


def test_one_table_or_one_model_is_no_ranking():
    assert rank([]) is None
    assert rank([table('a', p=1, q=0)]) is None
    assert rank([table('a', p=1, q=0), table('b', p=1)]) is None


@pytest.mark.parametrize(
    ('models', 'q'), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)]
)
def test_critical_difference_has_the_published_quantiles(models, q):
    expected = q * (models * (models + 1) / (6 * 14)) ** 0.5
    assert critical_difference(models, 14) == pytest.approx(expected, rel=1e-3)


def test_groups_are_the_longest_ones_without_a_difference():
    ranking = Ranking({'a': 1.0, 'b': 2.0, 'c': 4.0, 'd': 5.0}, 20, [])
    assert ranking.critical == pytest.approx(1.049, abs=1e-3)
    assert ranking.groups() == [('a', 'b'), ('c', 'd')]
    ranking = Ranking({'a': 1.0, 'b': 2.0, 'c': 3.0}, 4, [])
    assert ranking.groups() == [('a', 'b'), ('b', 'c')]
    far = Ranking({'a': 1.0, 'b': 2.0}, 100, [])
    assert far.groups() == []


def test_the_picture_names_all_and_repeats(tmp_path):
    pytest.importorskip('matplotlib')
    ranking = Ranking({'a': 1.0, 'model_b': 2.25, 'c': 2.75}, 4, [])
    for name in ('first', 'second'):
        draw(ranking, tmp_path / name)
    first, second = ((tmp_path / n).read_bytes() for n in ('first', 'second'))
    assert first == second
    for text in (b'a  1.00', b'model_b  2.25', b'2.75  c', b'CD = 1.66'):
        assert text in first
