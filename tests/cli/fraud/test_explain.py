import json

import pytest

from tests.cli.fraud.conftest import flat
from torch_energy_graph.data.from_csv import from_folder
from torch_energy_graph.detect import EnergyFraudDetector

pd = pytest.importorskip('pandas')


def test_reasons_of_a_node(run, folder, teg, tmp_path):
    picture = tmp_path / 'why.png'
    args = ['explain', '--model', run, '--node', 'acc-5', '--top', 2]
    more = ['--features', '--json', '--out', picture]
    code, out, _ = teg(*args, *more)
    assert code == 0
    assert picture.read_bytes().startswith(b'\x89PNG')
    found = json.loads(out)
    detector = EnergyFraudDetector.load(run / 'model')
    table = from_folder(folder)
    expected = detector.explain(table, 'acc-5', top=2, features=False)
    assert found['probability'] == expected.probability
    assert found['neighbors'] == expected.neighbors
    total = sum(row['energy'] for row in found['parts'])
    assert total == pytest.approx(found['energy'], abs=1e-10)
    assert found['threshold'] == detector.threshold_

    assert len(found['features']) == 5

    code, out, _ = teg(*args)
    assert code == 0
    lines = out.splitlines()
    first = f'acc-5: probability {expected.probability:.4f}, '
    assert lines[0].startswith(first)
    assert 'Features' not in out
    row = expected.neighbors[0]
    assert f'  {row["neighbor"]:24}{row["without"]:10.4f}' in out
    assert lines[-1] == f'  {"sum":24}{expected.energy:10.4f}'


def test_of_other_tables_and_numbers_as_ids(run, teg, tmp_path):
    nodes, edges = tmp_path / 'new.parquet', tmp_path / 'new_edges.csv'
    rows = {'id': [7, 8], 'amount': [3.5, 0], 'age': [1, 0]}
    frame = pd.DataFrame({**rows, 'kind': ['shop', 'user']})
    frame.to_parquet(nodes)
    edges.write_text('source,target,type,sum\n7,8,pays,2\n')
    args = ['explain', '--model', run]
    files = ['--nodes', nodes, '--edges', edges]
    code, out, _ = teg(*args, '--node', 8, *files)
    assert code == 0
    assert out.startswith('8: probability ')
    assert '(1 of 1 evaluated)' in out
    code, _, err = teg(*args, '--node', 9, *files)
    assert code == 1
    assert "there is no node '9' (ids are like [7, 8])" in err
    code, _, err = teg(*args, '--node', 8, '--edges', edges)
    assert code == 2
    assert 'belong to --nodes' in flat(err)
