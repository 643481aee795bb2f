import json

import numpy as np
import pytest
import torch
from scipy.stats import norm

from torch_energy_graph.data.from_pandas import from_pandas
from torch_energy_graph.data.preprocessing import Preprocessing, TableWarning
from torch_energy_graph.data.tables import TableLayout

pd = pytest.importorskip('pandas')

ENCODINGS = ['raw', 'standard', 'normal', 'piecewise']


def table_of(num_edges=4, typed=False, layout=None, **columns):
    size = len(next(iter(columns.values())))
    ids = [f'n{i}' for i in range(size)]
    edges = {
        'source': [ids[i % size] for i in range(num_edges)],
        'target': [ids[(i + 1) % size] for i in range(num_edges)],
    }
    if typed:
        edges['type'] = [typed[i % len(typed)] for i in range(num_edges)]
    frames = pd.DataFrame({'id': ids, **columns}), pd.DataFrame(edges)
    return from_pandas(*frames, layout)


def mixed_table(size=40, seed=0):
    draw = np.random.default_rng(seed)
    return table_of(
        num_edges=60,
        typed=['p', 'q'],
        amount=np.where(
            draw.random(size) < 0.1, np.nan, draw.normal(size=size)
        ),
        country=draw.choice(['DE', 'FR', 'PL', None], size),
        opened=pd.Timestamp('2024-02-03')
        + pd.to_timedelta(draw.integers(10**7, size=size), 's'),
        label=draw.integers(0, 2, size),
    )


def test_numbers_by_hand():
    mask = torch.tensor([True, True, True, False])
    table = table_of(x=[1.0, None, 3.0, 9.0], constant=[5, 5, 5, 6])
    preprocessing = Preprocessing().fit(table, mask)
    # median 2 of 1 and 3; mean 2, variance 2 / 3 of 1, 2, 3
    x = preprocessing.transform(table).x.double()
    expected = [[-1, 0], [0, 1], [1, 0], [7, 0]] * np.array([1.5**0.5, 1])
    np.testing.assert_allclose(x, expected, atol=1e-6)
    assert preprocessing.feature_names_ == ['x', 'x missing']


def test_categories_by_hand():
    table = table_of(c=['b', 'a', 'b', 'a', 'once', None], same=['s'] * 6)
    preprocessing = Preprocessing()
    x = preprocessing.fit_transform(table).x
    names = ['c=a', 'c=b', 'c other', 'c missing']
    assert preprocessing.feature_names_ == names
    columns = [1, 0, 1, 0, 2, 3]
    assert x.tolist() == torch.eye(4)[columns].tolist()
    # of equally frequent ones, the alphabet decides
    few = Preprocessing(max_categories=1).fit(table)
    assert few.feature_names_ == ['c=a', 'c other', 'c missing']


def test_times_by_hand():
    # Monday 00:00, Monday 06:00, unknown, Thursday 12:00 (UTC)
    times = ['2024-01-01', '2024-01-01T07:00:00+01:00', '', '2024-01-04T12']
    table = table_of(t=times)
    preprocessing = Preprocessing()
    x = preprocessing.fit_transform(table).x.double().numpy()
    assert preprocessing.feature_names_ == [
        't',
        't missing',
        't sine of day',
        't cosine of day',
        't sine of week',
        't cosine of week',
    ]
    hours = np.array([0, 6, 6, 84])  # the median fills the gap
    scaled = (hours - hours.mean()) / hours.std()
    np.testing.assert_allclose(x[:, 0], scaled, atol=1e-6)
    assert x[:, 1].tolist() == [0, 0, 1, 0]
    day = [[0, 1], [1, 0], [0, 0], [0, -1]]
    np.testing.assert_allclose(x[:, 2:4], day, atol=1e-6)
    angle = 2 * np.pi * np.array([0, 6, 84]) / 168
    known = x[[0, 1, 3], 4:]
    week = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    np.testing.assert_allclose(known, week, atol=1e-6)
    assert x[2, 4:].tolist() == [0, 0]


def test_normal_encoding_ranks():
    x = Preprocessing('normal').fit_transform(table_of(x=range(5))).x
    np.testing.assert_allclose(
        x[1:-1, 0], norm.ppf([0.25, 0.5, 0.75]), atol=1e-6
    )


def test_only_masked_rows_are_read():
    table = mixed_table()
    mask = torch.arange(40) < 20
    other = mixed_table(seed=0)
    other.nodes.frame.loc[20:, 'amount'] = 1e6
    other.nodes.frame.loc[20:, 'country'] = 'new'
    fits = [Preprocessing('piecewise').fit(t, mask) for t in (table, other)]
    assert fits[0].to_dict() == fits[1].to_dict()
    assert fits[0].to_dict() != Preprocessing('piecewise').fit(table).to_dict()


@pytest.mark.parametrize('encoding', ENCODINGS)
def test_round_trip_is_exact(encoding, tmp_path):
    table, later = mixed_table(), mixed_table(seed=1)
    fitted = Preprocessing(encoding).fit(table, torch.arange(40) < 30)
    fitted.save(tmp_path / 'p.json')
    loaded = Preprocessing.load(tmp_path / 'p.json')
    assert loaded.to_dict() == fitted.to_dict()
    assert repr(loaded) == repr(fitted)
    assert loaded.feature_names_ == fitted.feature_names_
    assert loaded.layout_ == fitted.layout_
    for graph in (table, later):
        one, two = fitted.transform(graph), loaded.transform(graph)
        assert torch.equal(one.x, two.x)
        assert torch.equal(one.edge_type, two.edge_type)
        assert one.num_features == len(fitted.feature_names_)


def damage(*path, value):
    def change(state):
        node = state
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value

    return change


@pytest.mark.parametrize(
    'change',
    [
        damage('format', value='other'),
        damage('version', value=2),
        damage('encoding', value='best'),
        damage('layout', 'labels', value='x'),
        damage('relations', value=None),
        damage('nodes', 'kinds', 'amount', value='size'),
        damage('nodes', 'encoders', value={}),
        damage('nodes', 'encoders', 'number', 'median', value=[1, 2]),
        damage('nodes', 'encoders', 'number', 'encoders', value=['x']),
        damage('nodes', 'encoders', 'category', 'kept', value=[]),
    ],
)
def test_damaged_states_are_refused(change):
    state = Preprocessing().fit(mixed_table()).to_dict()
    state = json.loads(json.dumps(state, allow_nan=False))
    Preprocessing.from_dict(state)
    change(state)
    with pytest.raises(ValueError, match='no saved preprocessing'):
        Preprocessing.from_dict(state)


def test_damaged_and_absent_files(tmp_path):
    path = tmp_path / 'p.json'
    with pytest.raises(FileNotFoundError):
        Preprocessing.load(path)
    for text in ('', '[]', '{"format": 1}', '\x00'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"cannot read '.*p.json'"):
            Preprocessing.load(path)


def notes_of(preprocessing, table):
    with pytest.warns(TableWarning) as caught:
        data = preprocessing.transform(table)
    return data, [str(warning.message) for warning in caught]


def test_later_tables_may_differ_and_are_reported():
    table = table_of(typed=['p', 'q'], x=[1, 2, 3, 4], c=['a', 'a', 'b', 'b'])
    preprocessing = Preprocessing('raw').fit(table)
    later = table_of(
        typed=['q', 'r'],
        c=['a', 'z', None, 'b'],
        x=[1.0, None, 3.0, 4.0],
        extra=[1, 2, 3, 4],
    )
    data, notes = notes_of(preprocessing, later)
    assert notes == [
        "'nodes': left aside columns the preprocessing was not fitted on "
        '(extra)',
        "column 'x': 1 cells are missing, as none was at the fit",
        "column 'c': 1 cells hold a category not seen at the fit",
        "'edges': left out 4 edges of relations the preprocessing was not "
        'fitted on (r)',
    ]
    assert data.x.tolist() == [[1, 1, 0], [2.5, 0, 0], [3, 0, 0], [4, 0, 1]]
    assert data.edge_type.tolist() == [1, 1, 1, 1]
    assert data.edge_index.tolist() == [[0, 2, 1, 3], [1, 3, 0, 2]]


def test_absent_columns_and_other_kinds_are_errors():
    preprocessing = Preprocessing().fit(table_of(x=[1, 2], z=['a', 'b']))
    with pytest.raises(ValueError, match=r"no column 'x' \(of 2 absent"):
        preprocessing.transform(table_of(y=[1, 2]))
    with pytest.raises(ValueError, match=r"row 1, column 'x'.*finite num"):
        preprocessing.transform(table_of(x=[1, 'many'], z=['a', 'b']))
    typed = Preprocessing().fit(table_of(typed=['p'], x=[1, 2]))
    with pytest.raises(ValueError, match='expected a relation for each'):
        typed.transform(table_of(x=[1, 2]))


def test_scoring_reads_tables_without_labels():
    layout = TableLayout(label='fraud', ignore=['note'])
    table = table_of(
        x=[1, 2, 3], fraud=[0, 1, 0], note=['u', 'v', 'w'], layout=layout
    )
    preprocessing = Preprocessing('raw').fit(table)
    assert preprocessing.feature_names_ == ['x']
    later = table_of(x=[5, 6, 7], layout=preprocessing.layout_.for_scoring())
    data = preprocessing.transform(later)
    assert data.x.tolist() == [[5], [6], [7]]
    assert data.y.tolist() == [-1, -1, -1]


def test_columns_without_values_and_tables_without_columns():
    table = table_of(empty=[None, None], one=[3, 3])
    data = Preprocessing().fit_transform(table)  # and no warning
    assert data.x.tolist() == [[1], [1]]
    assert 'edge_attr' not in data
    again = Preprocessing.from_dict(Preprocessing().fit(table).to_dict())
    assert again.feature_names_ == ['one']


def test_errors():
    table = table_of(x=[1, 2])
    with pytest.raises(ValueError, match='is not fitted'):
        Preprocessing().transform(table)
    with pytest.raises(TypeError, match='expects a GraphTable'):
        Preprocessing().fit(table.nodes.frame)
    with pytest.raises(ValueError, match=r'bool of shape \[2\]'):
        Preprocessing().fit(table, torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match='at least one node'):
        Preprocessing().fit(table, torch.zeros(2, dtype=torch.bool))
    with pytest.raises(ValueError, match='one of raw, standard'):
        Preprocessing('best')
    with pytest.raises(ValueError, match='max_categories >= 1'):
        Preprocessing(max_categories=0)
    with pytest.raises(ValueError, match="feature 'x' does not fit into fl"):
        Preprocessing('raw').fit_transform(table_of(x=[1e300, 2]))
