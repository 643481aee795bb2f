import numpy as np
import pytest

from torch_energy_graph.data.tables import Table, TableLayout
from torch_energy_graph.data.tables.kinds import find_kinds, parse

pd = pytest.importorskip('pandas')


def kind_of(cells, **layout):
    table = Table.of(pd.DataFrame({'x': cells}), 'nodes')
    return find_kinds(table, ['x'], TableLayout(**layout))['x']


def values_of(cells, kind):
    return parse(Table.of(pd.DataFrame({'x': cells}), 'nodes'), 'x', kind)


@pytest.mark.parametrize(
    ('cells', 'kind'),
    [
        ([1, 2], 'number'),
        ([True, False], 'number'),
        (['true', 'False'], 'number'),
        (['1', ' -2.5e3 ', '', 'n/a'], 'number'),
        ([None, None], 'number'),
        (['01067', '80331'], 'category'),
        (['a', '1'], 'category'),
        (['1_000', '2_000'], 'category'),
        (pd.Categorical([1, 2]), 'category'),
        (['2024-01-31', '2024-01-31T08:30:00+02:00'], 'time'),
        (pd.to_datetime(['2024-01-31', None]), 'time'),
        (['31.01.2024', '01.02.2024'], 'category'),
        (['now', 'today'], 'category'),
    ],
)
def test_kinds_are_found(cells, kind):
    assert kind_of(cells) == kind


def test_the_layout_decides_first():
    assert kind_of([1, 2], categorical=['x']) == 'category'
    assert kind_of([1, 2], timestamps=['x']) == 'time'


@pytest.mark.parametrize(
    ('bad', 'cells'),
    [('12,5', ['1'] * 10), ('soon', ['2024-01-31'] * 10)],
)
def test_a_few_cells_of_another_kind_are_an_error(bad, cells):
    cells = [*cells, bad]
    with pytest.raises(ValueError, match=f"row 10, column 'x'.*got '{bad}'"):
        kind_of(cells)
    assert kind_of(cells, categorical=['x']) == 'category'
    # with many of them it is text
    assert kind_of([*cells, bad, bad]) == 'category'


def test_numbers_are_exact():
    draw = np.random.default_rng(0)
    numbers = draw.normal(size=200) * 10.0 ** draw.integers(-30, 30, 200)
    text = [repr(float(number)) for number in numbers]
    assert values_of(text, 'number').tolist() == numbers.tolist()
    mixed = values_of(['1', None, 'TRUE', 'nan'], 'number')
    np.testing.assert_array_equal(mixed, [1, np.nan, 1, np.nan])
    nullable = pd.array([1, None], 'Int64')
    np.testing.assert_array_equal(values_of(nullable, 'number'), [1, np.nan])


@pytest.mark.parametrize(
    ('cells', 'seconds'),
    [
        (['1970-01-02', '1970-01-01T00:00:01.5'], [86400, 1.5]),
        (['1970-01-01T02:00:00+02:00', ''], [0, np.nan]),
        (['12', '-3.5'], [12, -3.5]),
        ([12, 13.5], [12, 13.5]),
        (pd.to_datetime(['1970-01-01T00:00:07', None]), [7, np.nan]),
        (
            pd.to_datetime(['1970-01-01T01:00:00']).tz_localize('Etc/GMT-1'),
            [0],
        ),
    ],
)
def test_times_are_unix_seconds(cells, seconds):
    np.testing.assert_array_equal(values_of(cells, 'time'), seconds)


def test_errors_of_cells():
    with pytest.raises(ValueError, match=r"row 1.*expected a time .*'31\.1"):
        values_of(['2024-01-31', '31.1.2024'], 'time')
    with pytest.raises(ValueError, match=r'row 0.*finite number .*2 such'):
        values_of([np.inf, -np.inf], 'number')


def test_categories_are_the_same_from_text_and_numbers():
    expected = ['1', '', '2', '']
    for cells in (
        [1.0, None, 2.0, np.nan],
        ['1', 'NA', '2.0', ' '],
        pd.array([1, None, 2, None], 'Int64'),
        pd.Categorical([1, None, 2, None]),
    ):
        assert values_of(cells, 'category').tolist() == expected
    days = pd.to_datetime(['2024-01-31'])
    assert values_of(days, 'category').tolist() == ['2024-01-31T00:00:00']
