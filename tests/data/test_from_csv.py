import gzip
import random

import numpy as np
import pytest

from torch_energy_graph.data.from_csv import from_csv, from_folder
from torch_energy_graph.data.preprocessing import Preprocessing
from torch_energy_graph.data.tables import TableLayout

pd = pytest.importorskip('pandas')

NODES = 'id,size,label\na,1.5,0\nb,,1\nc,2,\n'
EDGES = 'source,target,type\na,b,pays\nb,c,calls\n'


@pytest.fixture
def write(tmp_path):
    def save(nodes=NODES, edges=EDGES):
        for name, text in (('nodes.csv', nodes), ('edges.csv', edges)):
            data = text if isinstance(text, bytes) else text.encode()
            (tmp_path / name).write_bytes(data)
        return tmp_path / 'nodes.csv', tmp_path / 'edges.csv'

    return save


def check_usual(table):
    assert table.node_id == ['a', 'b', 'c']
    assert table.y.tolist() == [0, 1, -1]
    assert table.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert table.relations == ('calls', 'pays')
    x = Preprocessing('raw').fit_transform(table).x
    assert x.tolist() == [[1.5, 0], [1.75, 1], [2, 0]]


@pytest.mark.parametrize(
    'change',
    [
        lambda text: text,
        lambda text: text.encode('utf-8-sig'),
        lambda text: text.replace('\n', '\r\n'),
        lambda text: text.replace(',', ' , '),
        lambda text: text.replace('\n', '\n\n') + ',,\n\n',
        lambda text: text.rstrip('\n'),
        lambda text: text.replace('c,2,', 'c,2'),
        lambda text: text.replace('a,', '"a",'),
        lambda text: text.replace(',,', ',#N/A,').replace('2,\n', '2,null\n'),
    ],
)
def test_the_same_graph_from_files_of_many_kinds(write, change):
    check_usual(from_csv(*write(change(NODES), change(EDGES))))


def test_other_separators_packed_files_and_folders(write, tmp_path):
    nodes, edges = write(*(t.replace(',', ';') for t in (NODES, EDGES)))
    check_usual(from_csv(nodes, edges, sep=';'))
    check_usual(from_folder(tmp_path, sep=';'))
    with pytest.raises(ValueError, match=r"row 1: there is one .* sep=';'"):
        from_folder(tmp_path)
    nodes.unlink()
    packed = tmp_path / 'nodes.csv.gz'
    packed.write_bytes(gzip.compress(NODES.encode()))
    write_edges = EDGES.replace(',pays', '').replace(',calls', '')
    edges.unlink()
    for name, row in (('pays', 1), ('calls', 2)):
        lines = write_edges.splitlines()
        text = f'source,target\n{lines[row]}\n'
        (tmp_path / f'edges_{name}.csv').write_text(text)
    table = from_folder(tmp_path)
    assert table.relations == ('calls', 'pays')
    assert table.edge_index.tolist() == [[1, 0, 2, 1], [2, 1, 1, 0]]
    assert table.edge_type.tolist() == [0, 1, 0, 1]


def test_parquet_gives_what_frames_give(write, tmp_path):
    pytest.importorskip('pyarrow')
    frames = [pd.read_csv(path) for path in write()]
    for name, frame in zip(('nodes', 'edges'), frames, strict=True):
        (tmp_path / f'{name}.csv').unlink()
        frame.set_index(frame.columns[0]).to_parquet(
            tmp_path / f'{name}.parquet'
        )
    check_usual(from_folder(tmp_path))
    (tmp_path / 'nodes.parquet').write_bytes(b'PAR1 no table')
    with pytest.raises(ValueError, match='is no Parquet table'):
        from_folder(tmp_path)


def test_the_layout_of_a_folder(write, tmp_path):
    write('key,is\nx,yes\ny,no\n', 'from,to\nx,y\n')
    layout = tmp_path / 'layout.json'
    layout.write_text(
        '{"id": "key", "label": "is", "positive": "yes", '
        '"source": "from", "target": "to", "directed": true}'
    )
    table = from_folder(tmp_path)
    assert table.y.tolist() == [1, 0]
    assert table.edge_index.tolist() == [[0], [1]]
    assert TableLayout.from_dict(table.layout.to_dict()) == table.layout
    for text, message in (
        ('{"labels": "is"}', "no 'labels'; did you mean 'label'"),
        ('{"directed": 1}', 'expects directed as a bool'),
        ('[]', 'expected an object'),
        ('{', 'bad layout in'),
    ):
        layout.write_text(text)
        with pytest.raises(ValueError, match=message):
            from_folder(tmp_path)


def test_folders_that_are_incomplete_or_double(write, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no 'nodes.csv' in"):
        from_folder(tmp_path / 'absent')
    nodes, edges = write()
    (tmp_path / 'edges_pays.csv').write_text('source,target\n')
    with pytest.raises(ValueError, match=r"holds 'edges.csv' and 'edges_pa"):
        from_folder(tmp_path)
    (tmp_path / 'nodes.parquet').write_bytes(b'')
    with pytest.raises(ValueError, match=r"'nodes.csv' and 'nodes.parq"):
        from_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match='the path is a folder'):
        from_csv(tmp_path, edges)
    with pytest.raises(FileNotFoundError, match='the path is absent'):
        from_csv(nodes, tmp_path / 'no.csv')
    with pytest.raises(ValueError, match='one character'):
        from_csv(nodes, edges, sep=', ')


@pytest.mark.parametrize(
    ('nodes', 'message'),
    [
        (b'', r"nodes.csv' is empty"),
        (b'\n', 'row 1: the first row is blank'),
        (b'id,x\n', r"nodes.csv': no rows"),
        (b'id,\na,1\n', 'row 1: column 2 has no name'),
        (b'id,x, x\na,1,2\n', "row 1: two columns are named 'x'"),
        (b'id,x\na,1,2\n', 'rows differ in their number of cells'),
        (b'id,x\na,1\nb,1,2\n', 'rows differ in their number of cells'),
        (b'id,x\na,"1\n', 'rows differ in their number of cells'),
        (b'id,x\na,\xe9\n', 'not UTF-8 .byte 0xe9'),
        ('id\na\n'.encode('utf-16'), 'not UTF-8'),
        (b'key\na\n', r"nodes.csv': no column 'id'"),
        (b'id,x\na,1\n ,2\n', "row 3, column 'id': the id is missing"),
        (b'id,x\na,1\n\na,2\n', "row 4, column 'id': id 'a' is already in"),
        (b'id,label\na,0\nb,yes\n', "row 3, column 'label'.*got 'yes'"),
        (b'id\nx\ny\n', r"edges.csv': no id is in '.*nodes.csv'"),
        (b'id\na\nb\n', "edges.csv', row 3, column 'target': id 'c'"),
    ],
)
def test_errors_name_file_row_and_column(write, nodes, message):
    with pytest.raises(ValueError, match=message) as error:
        from_csv(*write(nodes))
    assert ';' in str(error.value)  # how to mend it comes behind


@pytest.mark.parametrize(
    ('cell', 'message'),
    [
        ('inf', "row 3, column 'x': expected a finite number .got 'inf'"),
        ('-1e999', "row 3, column 'x': expected a finite number"),
        ('1,5', "row 3, column 'x': expected a number as in 19 other rows"),
        ('oops', "got 'oops'.; correct or empty it, or name 'x' in Table"),
    ],
)
def test_bad_numbers_name_the_cell(write, cell, message):
    rows = [f'n{i},{i}' for i in range(20)]
    rows[1] = f'n1,"{cell}"'
    text = 'id,x\n' + '\n'.join(rows)
    table = from_csv(*write(text, 'source,target\nn1,n2\n'))
    with pytest.raises(ValueError, match=message):
        Preprocessing().fit(table)


def test_an_edge_table_may_have_no_rows(write):
    table = from_csv(*write(edges='source,target,type,sum\n'))
    data = Preprocessing().fit_transform(table)
    assert data.edge_index.shape == (2, 0)
    assert 'edge_type' not in data


CELLS = [
    *('a', 'b', 'c', 'd', '1', '2', '0', '-1', '1.5', '', '', 'NA', 'inf'),
    *('x y', '"q"', '"', "'", 'é', '\x00', '1e999', '2024-01-31', '007'),
    *('true', 'ok', '9' * 40, '\t', '\r', '=1+1', '\ufeff', '2024-13-01'),
]
NAMES = ['id', 'source', 'target', 'label', 'type', 'x', 'y', '', 'id', 'x']


def fuzzed(draw, header):
    """A table with some things wrong, sometimes nothing."""
    if draw.random() < 0.05:
        header = [draw.choice(NAMES) for _ in range(draw.randint(0, 5))]
    rows = [header]
    for number in range(draw.choice([0, 3, 6, 12, 12])):
        row = [draw.choice('abcd') for _ in header]
        if header[:1] == ['id'] and draw.random() < 0.98:
            row[0] = 'abcdefghijklm'[number]
        row[2:] = [draw.choice('0123') for _ in row[2:]]
        if 'label' in header:
            row[header.index('label')] = draw.choice(['0', '1', '-1', ''])
        if draw.random() < 0.05:
            row[draw.randrange(len(row)) if row else 0 :] = [
                draw.choice(CELLS) for _ in range(draw.randint(0, 3))
            ]
        rows.append(row)
    text = '\n'.join(','.join(row) for row in rows)
    data = text.encode(draw.choice(['utf-8'] * 40 + ['utf-8-sig', 'utf-16']))
    if draw.random() < 0.03:
        data = data[: draw.randint(0, len(data))]
    if draw.random() < 0.03:
        position = draw.randint(0, len(data))
        data = data[:position] + draw.randbytes(3) + data[position:]
    return data


@pytest.mark.parametrize(
    'count', [200, pytest.param(1000, marks=pytest.mark.full)]
)
def test_fuzzed_pairs_work_or_say_why_not(count, write):
    draw = random.Random(count)
    worked = 0
    for _ in range(count):
        nodes = fuzzed(draw, ['id', 'x', 'y', 'label'])
        edges = fuzzed(draw, ['source', 'target', 'type', 'x'])
        how = draw.choice(['error', 'add', 'add', 'drop'])
        try:
            table = from_csv(
                *write(nodes, edges), TableLayout(missing_nodes=how)
            )
            kinds = {**table.node_kinds, **table.edge_kinds}
            if worked % 2 == 0:
                data = Preprocessing().fit_transform(table)
                assert data.x.isfinite().all()
                data.validate()
            worked += 1
            assert {*kinds.values()} <= {'number', 'time', 'category'}
        except (FileNotFoundError, TypeError, ValueError) as error:
            text = str(error)
            assert '.csv' in text, (nodes, edges, text)
            assert ';' in text, (nodes, edges, text)
    assert 0.3 < worked / count < 0.9  # both were tried


def test_the_fuzzer_writes_what_it_should():
    draw = random.Random(1)
    tables = [fuzzed(draw, ['id', 'x']) for _ in range(500)]
    assert min(map(len, tables)) < 5
    assert any(t.startswith(b'\xef\xbb\xbf') for t in tables)
    assert np.mean([t.startswith(b'id,x\n') for t in tables]) > 0.5
