import json

import numpy as np
import pytest

from torch_energy_graph.data.card import data_card
from torch_energy_graph.data.from_pandas import from_pandas
from torch_energy_graph.data.leakage import column_auroc, row_order_auroc
from torch_energy_graph.data.tables import TableLayout

pd = pytest.importorskip('pandas')


def warned(card, *words):
    return any(all(w in text for w in words) for text in card['warnings'])


def test_by_hand():
    nodes = pd.DataFrame(
        {
            'id': list('abcd'),
            'x': [1.0, None, 1.0, 2.0],
            'c': ['u', 'v', 'u', None],
            'label': [1, 1, 0, None],
        }
    )
    edges = pd.DataFrame(
        [*map(list, ('abp', 'abp', 'bcp', 'ccq', 'adq', 'zaq'))],
        columns=['source', 'target', 'type'],
    ).assign(sum=[1, 2, 3, 4, None, 5])
    layout = TableLayout(directed=True, missing_nodes='add')
    card = data_card(from_pandas(nodes, edges, layout))
    assert json.loads(json.dumps(card, allow_nan=False)) == card
    assert card['num_nodes'] == 5
    assert card['num_edges'] == 6
    assert card['num_features'] == 2
    assert card['num_self_loops'] == 1
    assert card['num_isolated'] == 0
    assert card['num_duplicate_edges'] == 1
    assert card['num_added'] == 1
    assert card['num_labeled'] == 3
    assert card['prevalence'] == pytest.approx(2 / 3)
    # of the labelled edges a-b, a-b, b-c and the loop at c
    assert card['homophily'] == pytest.approx(3 / 4)
    assert card['anomaly_homophily'] == 1.0
    assert card['degree'] == {
        'mean': 1.2,
        'p50': 1.0,
        'p90': 2.0,
        'p99': 2.0,
        'max': 2,
        'share_of_top_1_percent': pytest.approx(2 / 6),
    }
    assert card['relations'] == [
        {
            'name': 'p',
            'num_edges': 3,
            'homophily': pytest.approx(2 / 3),
            'anomaly_homophily': 1.0,
        },
        {
            'name': 'q',
            'num_edges': 3,
            'homophily': 1.0,
            'anomaly_homophily': None,
        },
    ]
    assert card['columns'] == [
        {
            'name': 'x',
            'kind': 'number',
            'missing': 2,
            'distinct': 2,
            'auroc': None,
        },
        {
            'name': 'c',
            'kind': 'category',
            'missing': 2,
            'distinct': 2,
            'auroc': None,
        },
    ]
    assert card['edge_columns'] == [
        {'name': 'sum', 'kind': 'number', 'missing': 1, 'distinct': 5}
    ]
    assert warned(card, '2 anomalies', 'chance')
    assert warned(card, '1 ids are in edges only')
    assert warned(card, '1 self-loops')
    assert warned(card, '1 parallel edges')
    assert warned(card, "relation 'p'", '100.0%')
    assert warned(card, '2 nodes have the same features', '2 of them')


def labelled(size=200, seed=0, **columns):
    draw = np.random.default_rng(seed)
    y = draw.permutation(np.arange(size) % 4 == 0).astype(int)
    nodes = pd.DataFrame({'id': [f'n{i}' for i in range(size)], 'label': y})
    for name, make in columns.items():
        nodes[name] = make(y, draw)
    edges = pd.DataFrame(
        nodes['id'].to_numpy()[draw.integers(size, size=(300, 2))],
        columns=['source', 'target'],
    )
    return nodes, edges


def test_columns_that_tell_the_label_are_found_and_others_not():
    card = data_card(
        from_pandas(
            *labelled(
                number=lambda y, draw: -y + 0.1 * draw.random(len(y)),
                gap=lambda y, draw: np.where(y, np.nan, draw.random(len(y))),
                word=lambda y, draw: np.where(y, 'u', draw.choice(['v', 'w'])),
                noise=lambda y, draw: draw.random(len(y)),
                unique=lambda y, draw: [f't{i}' for i in range(len(y))],
                some=lambda y, draw: y + draw.normal(size=len(y)),
            )
        )
    )
    found = {column['name']: column['auroc'] for column in card['columns']}
    for name in ('number', 'gap', 'word'):
        assert found[name] > 0.999
        assert warned(card, f"'{name}'", 'AUROC 1.000 by itself')
    for name in ('noise', 'unique'):
        assert found[name] < 0.6
        assert not warned(card, f"'{name}'", 'by itself')
    assert 0.65 < found['some'] < 0.85
    assert warned(card, "'unique'", '200 different texts')
    assert not warned(card, 'ids tell')
    assert not warned(card, 'ordered by label')


@pytest.mark.parametrize(
    ('part', 'name'),
    [
        ('prefix', lambda i, y: f'{"fx"[y]}{i}'),
        ('number', lambda i, y: i + 1000 * y),
        ('length', lambda i, y: f'{i}' + 'x' * (9 * y)),
    ],
)
def test_ids_that_tell_the_label(part, name):
    nodes, edges = labelled()
    new = {
        old: name(i, y)
        for i, (old, y) in enumerate(
            zip(nodes['id'], nodes['label'], strict=True)
        )
    }
    nodes['id'] = nodes['id'].map(new)
    edges = edges.map(new.get)
    card = data_card(from_pandas(nodes, edges))
    assert warned(card, 'ids tell the label', part)


def test_rows_in_the_order_of_labels():
    nodes, edges = labelled()
    card = data_card(from_pandas(nodes.sort_values('label'), edges))
    assert warned(card, 'rows are ordered by label (AUROC 1.000')
    y = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    # the chance of this order is 1 in 252: no reason to warn
    assert row_order_auroc(np.arange(10), y) is None


def test_few_labels_say_nothing_about_columns():
    y = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    assert column_auroc(y.astype(float), 'number', y) is None
    y = np.append(y, 1)
    assert column_auroc(y.astype(float), 'number', y) == 1.0


@pytest.mark.parametrize(
    ('labels', 'words'),
    [
        ([None, None], 'no node has a label'),
        ([0, 0], 'all labels are equal'),
        ([1, 1], 'all labels are equal'),
    ],
)
def test_labels_that_cannot_be_learned(labels, words):
    nodes = pd.DataFrame({'id': ['a', 'b'], 'label': labels})
    edges = pd.DataFrame({'source': ['a'], 'target': ['a']})
    card = data_card(from_pandas(nodes, edges))
    assert warned(card, words)
    assert warned(card, 'no edge connects two nodes')


def test_times_and_gaps_are_warned_of():
    nodes, edges = labelled(
        when=lambda y, draw: ['2024-01-31'] * 99 + ['2024-02-01'] * 101,
        rare=lambda y, draw: [1.0, 2.0] * 25 + [None] * 150,
        empty=lambda y, draw: [None] * 200,
    )
    card = data_card(from_pandas(nodes, edges))
    assert warned(card, "'when'", 'split by time')
    assert warned(card, "'rare'", '75% are missing')
    assert warned(card, "'empty'", 'empty: it tells nothing')
