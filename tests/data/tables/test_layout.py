import pytest

from torch_energy_graph.data.tables import TableLayout


@pytest.mark.parametrize(
    ('fields', 'error', 'message'),
    [
        ({'id': ''}, TypeError, 'id as a str'),
        ({'label': 3}, TypeError, 'label as a str or None'),
        ({'ignore': 'ab'}, TypeError, 'ignore as a tuple of str'),
        ({'directed': 'no'}, TypeError, 'directed as a bool'),
        ({'missing_nodes': 'keep'}, ValueError, 'one of error, add, drop'),
        ({'id': 'label'}, ValueError, 'other columns for id and label'),
        ({'source': 'target'}, ValueError, 'three columns'),
        (
            {'categorical': ['x'], 'timestamps': ['x']},
            ValueError,
            "'x'.* choose one",
        ),
    ],
)
def test_wrong_fields(fields, error, message):
    with pytest.raises(error, match=message):
        TableLayout(**fields)


def test_for_scoring_keeps_the_ids_and_forgets_the_labels():
    layout = TableLayout(
        id='key', label='is', positive='yes', ignore=['a'], directed=True
    )
    scoring = layout.for_scoring()
    assert (scoring.id, scoring.directed) == ('key', True)
    assert (scoring.label, scoring.positive, scoring.ignore) == (
        None,
        None,
        (),
    )


def test_round_trip_through_json_values():
    layout = TableLayout(label=None, ignore=['a'], missing_nodes='add')
    fields = {**layout.to_dict(), 'ignore': ['a']}
    assert TableLayout.from_dict(fields) == layout
