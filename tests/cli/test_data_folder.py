import json

import pytest

from torch_energy_graph.cli import main

pytest.importorskip('pandas')


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / 'my'
    path.mkdir()
    rows = [f'n{i},{i},{"yes" if i % 3 else "no"}\n' for i in range(20)]
    (path / 'nodes.csv').write_text(f'id,size,fraud\n{"".join(rows)}')
    (path / 'edges.csv').write_text(
        'source,target,type\nn0,n1,p\nn1,n2,q\nn2,z,q\n'
    )
    (path / 'layout.json').write_text('{"label": "fraud"}')
    return path


def run(capsys, *args):
    code = main(['data', 'info', *map(str, args)])
    return code, *capsys.readouterr()


def test_card_as_json(capsys, folder):
    code, out, _ = run(capsys, folder, '--set', 'positive=yes', '--json')
    card = json.loads(out)
    assert code == 0
    assert card['name'] == str(folder)
    assert card['num_anomalies'] == 13
    assert card['num_added'] == 1
    assert [relation['name'] for relation in card['relations']] == ['p', 'q']


def test_card_for_people(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    code, out, _ = run(capsys, 'my', '--set', 'positive=yes')
    assert code == 0
    lines = out.splitlines()
    assert 'num_nodes           21' in lines
    assert any(
        line.split()[:3] == ['size', 'kind', 'number,'] for line in lines
    )
    assert any(
        line.startswith('  - 1 ids are in edges only') for line in lines
    )


@pytest.mark.parametrize(
    ('args', 'code', 'message'),
    [
        ([], 1, "row 2, column 'fraud': expected a label"),
        (['--set', 'positiv=yes'], 2, "did you mean 'positive'?"),
        (['--sep', ';'], 1, "row 1: there is one column, 'source,target"),
        (
            ['--set', 'positive=yes', '--set', 'ignore=size,sze'],
            1,
            "no table has the column 'sze'",
        ),
    ],
)
def test_errors_are_one_line(capsys, folder, args, code, message):
    found, out, err = run(capsys, folder, *args)
    assert (found, out) == (code, '')
    assert message in err
    assert err.count('\n') == 1


def test_absent_folders_and_fields_of_datasets(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path / 'absent')
    assert code == 1
    assert "no 'nodes.csv' in" in err
    code, _, err = run(capsys, 'digits_outlier', '--set', 'label=x')
    assert code == 2
    assert 'is for folders of tables' in err
