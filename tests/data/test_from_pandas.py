import numpy as np
import pytest
import torch

from torch_energy_graph.data.from_pandas import from_pandas
from torch_energy_graph.data.preprocessing import Preprocessing
from torch_energy_graph.data.tables import TableLayout
from torch_energy_graph.nn.models import EnergyAnomalyDetector

pd = pytest.importorskip('pandas')


def nodes(**columns):
    return pd.DataFrame({'id': ['a', 'b', 'c'], **columns})


def edges(*pairs, **columns):
    rows = [tuple(pair) for pair in pairs]
    frame = pd.DataFrame(rows, columns=['source', 'target'])
    return frame.assign(**columns)


def edge_set(table):
    return sorted(zip(*table.edge_index.tolist(), strict=True))


def test_by_hand():
    table = from_pandas(
        nodes(size=[1.5, None, 2], label=[0, 1, None]),
        edges('ab', 'bc', type=['pays', 'calls'], sum=[7, 8]),
    )
    assert table.node_id == ['a', 'b', 'c']
    assert table.y.tolist() == [0, 1, -1]
    assert table.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert table.relations == ('calls', 'pays')
    assert table.edge_type.tolist() == [1, 0, 1, 0]
    assert table.edges.frame['sum'].tolist() == [7, 8, 7, 8]
    assert table.nodes.columns == ['size']


def test_each_direction_is_added_once():
    table = from_pandas(nodes(), edges('aa', 'ab', 'ab', 'cb'))
    assert edge_set(table) == sorted(
        [(0, 0), (0, 1), (0, 1), (1, 0), (1, 0), (2, 1), (1, 2)]
    )
    # a list that is symmetric already stays as it is
    table = from_pandas(nodes(), edges('aa', 'ab', 'ba'))
    assert edge_set(table) == [(0, 0), (0, 1), (1, 0)]
    # but not if its two directions are of different relations
    typed = from_pandas(nodes(), edges('ab', 'ba', type=['p', 'q']))
    assert typed.num_edges == 4
    directed = from_pandas(
        nodes(), edges('aa', 'ab'), TableLayout(directed=True)
    )
    assert edge_set(directed) == [(0, 0), (0, 1)]


def test_several_frames_are_relations():
    table = from_pandas(
        nodes(),
        {'pays': edges('ab', sum=[3.0]), 'calls': edges('bc', length=[4.0])},
        TableLayout(directed=True),
    )
    assert table.relations == ('calls', 'pays')
    assert table.edge_type.tolist() == [1, 0]
    data = Preprocessing('raw').fit_transform(table)
    # each has one value and a gap, which says all there is
    assert data.edge_attr.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ('column', 'ids'),
    [
        ([3, 1, 2], [3, 1, 2]),
        ([3.0, 1.0, 2.0], [3, 1, 2]),
        (['03', '1', '2'], ['03', '1', '2']),
        ([' x', 'y ', 'NA'], ['x', 'y', 'NA']),
        (pd.array([3, 1, 2], 'Int64'), [3, 1, 2]),
        (pd.Categorical(['x', 'y', 'z']), ['x', 'y', 'z']),
    ],
)
def test_ids_of_all_types_come_back(column, ids):
    frame = pd.DataFrame({'id': column})
    links = pd.DataFrame({'source': [ids[0]], 'target': [str(ids[2])]})
    data = Preprocessing().fit_transform(from_pandas(frame, links))
    assert data.node_id == ids
    assert data.edge_index.tolist() == [[0, 2], [2, 0]]
    assert data.subgraph(torch.tensor([2, 0])).node_id == [ids[2], ids[0]]


@pytest.mark.parametrize(
    ('labels', 'options', 'y'),
    [
        ([0, 1, -1], {}, [0, 1, -1]),
        ([True, False, None], {}, [1, 0, -1]),
        (['1.0', '0', ' '], {}, [1, 0, -1]),
        (['TRUE', 'false', 'NaN'], {}, [1, 0, -1]),
        (['fraud', 'ok', ''], {'positive': 'fraud'}, [1, 0, -1]),
        (
            ['bad', 'good', '?'],
            {'positive': 'bad', 'unknown': ['?']},
            [1, 0, -1],
        ),
        ([2, 0, 1], {'positive': '2'}, [1, 0, 0]),
    ],
)
def test_labels(labels, options, y):
    layout = TableLayout(**options)
    assert from_pandas(nodes(label=labels), edges(), layout).y.tolist() == y


def test_labels_may_be_absent_under_their_default_name_only():
    assert from_pandas(nodes(), edges()).y.tolist() == [-1, -1, -1]
    with pytest.raises(ValueError, match="no column 'fruad'; name it"):
        from_pandas(
            nodes(fraud=[0, 1, 0]), edges(), TableLayout(label='fruad')
        )


def test_equal_rows_are_merged_and_others_refused():
    frame = pd.DataFrame(
        {'id': ['a', 'b', 'a'], 'x': [1.0, 2.0, 1.0], 'z': [None, 0, None]}
    )
    table = from_pandas(frame, edges('ab'))
    assert table.node_id == ['a', 'b']
    assert table.notes[0] == "1 repeated rows of 'nodes' were merged"
    frame.loc[2, 'x'] = 3.0
    with pytest.raises(ValueError, match="row 2, column 'id': id 'a' is al"):
        from_pandas(frame, edges('ab'))


def test_ids_that_only_edges_name():
    links = edges('ab', 'zc', 'yz')
    with pytest.raises(ValueError, match="row 1, column 'source': id 'z'"):
        from_pandas(nodes(), links)
    drop = from_pandas(nodes(), links, TableLayout(missing_nodes='drop'))
    assert edge_set(drop) == [(0, 1), (1, 0)]
    assert '2 edges with ids without a node were dropped' in drop.notes
    add = from_pandas(
        nodes(size=[1, 2, 3], label=[0, 1, 0]),
        links,
        TableLayout(missing_nodes='add', directed=True),
    )
    assert add.node_id == ['a', 'b', 'c', 'z', 'y']
    assert add.y.tolist() == [0, 1, 0, -1, -1]
    assert add.num_added == 2
    assert edge_set(add) == [(0, 1), (3, 2), (4, 3)]
    assert Preprocessing('raw').fit_transform(add).x.tolist() == [
        [1, 0],
        [2, 0],
        [3, 0],
        [2, 1],
        [2, 1],
    ]
    for how in ('error', 'add', 'drop'):
        with pytest.raises(ValueError, match='no id is in'):
            from_pandas(nodes(), edges('xy'), TableLayout(missing_nodes=how))


def test_a_graph_that_grows():
    old = from_pandas(
        nodes(size=[1, 2, 3], label=[0, 1, 0]),
        edges('ab', type=['q']),
    )
    more = pd.DataFrame({'id': ['d'], 'size': [9]})
    grown = from_pandas(more, edges('da', type=['p']), base=old)
    assert grown.node_id == ['a', 'b', 'c', 'd']
    assert grown.y.tolist() == [0, 1, 0, -1]
    assert grown.relations == ('p', 'q')
    assert grown.edge_index.tolist() == [[0, 1, 3, 0], [1, 0, 0, 3]]
    assert grown.edge_type.tolist() == [1, 1, 0, 0]
    assert grown.nodes.frame['size'].tolist() == [1, 2, 3, 9]
    with pytest.raises(ValueError, match="id 'b' is already in the graph"):
        from_pandas(nodes().iloc[1:], edges(type=[]), base=old)
    with pytest.raises(ValueError, match='a relation for each edge'):
        from_pandas(more, edges('da'), base=old)


@pytest.mark.parametrize(
    ('frame', 'message'),
    [
        (nodes(x=[1, [2], 3]), "'nodes', row 1, column 'x': expected text"),
        (nodes(x=[1j, 2, 3]), "column 'x': expected text, numbers or times"),
        (pd.DataFrame({'id': ['a', None, 'c']}), 'row 1.*the id is missing'),
        (pd.DataFrame({'id': [1.5, 2, 3]}), 'row 0.*1.5 cannot be an id'),
        (pd.DataFrame({'id': [2.0**60, 2, 3]}), 'row 0.*cannot be an id'),
        (pd.DataFrame({'id': []}), 'no rows; a graph needs nodes'),
        (pd.DataFrame({'name': ['a']}), "no column 'id'"),
        (nodes(label=[0, 2, 1]), r"row 1, column 'label'.*\(got '2'\)"),
        (pd.DataFrame([['a', 1]], columns=['id', 'id']), 'several columns'),
        ({'id': ['a']}, 'expects a pandas.DataFrame'),
    ],
)
def test_errors_name_the_place(frame, message):
    with pytest.raises((TypeError, ValueError), match=message):
        from_pandas(frame, edges('aa'))


@pytest.mark.parametrize(
    ('frame', 'message'),
    [
        (edges('ab', type=[None]), "'edges', row 0.*the type of the edge"),
        (edges(('a', None)), "row 0, column 'target': the id is missing"),
        (edges('ab').rename(columns={'target': 'to'}), "no column 'target'"),
        ({}, 'a frame for each relation'),
    ],
)
def test_errors_of_edges(frame, message):
    with pytest.raises(ValueError, match=message):
        from_pandas(nodes(), frame)


def random_tables(seed, num_nodes=60, num_edges=200):
    draw = np.random.default_rng(seed)
    ids = np.array([f'n{i}' for i in range(num_nodes)])
    left = pd.DataFrame(
        {
            'id': ids,
            'size': draw.normal(size=num_nodes),
            'kind': draw.choice(['x', 'y', 'z', None], num_nodes),
            'since': pd.Timestamp('2024-02-03')
            + pd.to_timedelta(draw.integers(10**7, size=num_nodes), 's'),
            'label': draw.integers(-1, 2, num_nodes),
        }
    )
    left.loc[draw.integers(num_nodes, size=4), 'size'] = None
    right = pd.DataFrame(ids[draw.integers(num_nodes, size=(num_edges, 2))])
    right.columns = ['source', 'target']
    right['type'] = draw.choice(['p', 'q'], num_edges)
    right['sum'] = draw.random(num_edges)
    return left, right


@pytest.mark.parametrize('encoding', ['standard', 'normal', 'piecewise'])
def test_order_of_rows_and_names_of_ids_do_not_matter(encoding):
    left, right = random_tables(0)
    renamed = {name: f'{i * 7919 % 997}' for i, name in enumerate(left['id'])}
    ends = ['source', 'target']
    new_left = left.sample(frac=1, random_state=1).assign(
        id=lambda frame: frame['id'].map(renamed)
    )
    new_right = right.sample(frac=1, random_state=2)
    new_right[ends] = new_right[ends].map(renamed.get)

    one, two = (
        Preprocessing(encoding).fit_transform(from_pandas(*tables))
        for tables in ((left, right), (new_left, new_right))
    )
    place = [two.node_id.index(renamed[i]) for i in one.node_id]
    torch.testing.assert_close(two.x[place], one.x, rtol=0, atol=1e-5)
    assert two.y[place].tolist() == one.y.tolist()
    torch.manual_seed(0)
    model = EnergyAnomalyDetector(one.num_features, 8, heads=2).eval()
    with torch.no_grad():
        scores = [model(data.x, data.edge_index) for data in (one, two)]
    torch.testing.assert_close(scores[1][place], scores[0])

    def edges_of(data, position):
        src, dst = data.edge_index
        rows = torch.stack([position[src], position[dst], data.edge_type], 1)
        keys = torch.cat([rows.double(), data.edge_attr.double()], dim=1)
        return np.array(sorted(keys.tolist()))

    position = torch.empty(len(place), dtype=torch.long)
    position[place] = torch.arange(len(place))
    np.testing.assert_allclose(
        edges_of(two, position),
        edges_of(one, torch.arange(len(place))),
        atol=1e-5,
    )
