"""The example of serving answers as the library does."""

import runpy
from pathlib import Path

import pytest

from tests.detect.graphs import SMALL, fraud_graph
from torch_energy_graph.data.from_csv import from_folder
from torch_energy_graph.data.from_pandas import from_pandas
from torch_energy_graph.detect import EnergyFraudDetector

pd = pytest.importorskip('pandas')
pytest.importorskip('fastapi')
pytest.importorskip('httpx')

EXAMPLE = Path(__file__).parents[2] / 'examples' / 'serve.py'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    from tests.detect.test_tables import tables

    folder = tmp_path_factory.mktemp('serve')
    nodes, edges = tables(fraud_graph())
    nodes.to_csv(folder / 'nodes.csv', index=False)
    edges.to_csv(folder / 'edges.csv', index=False)
    detector = EnergyFraudDetector(**{**SMALL, 'epochs': 2, 'ensemble': 1})
    detector.fit(from_folder(folder)).save(folder / 'model')
    return folder


def client(folder, monkeypatch, tables):
    from fastapi.testclient import TestClient

    monkeypatch.setenv('TEG_MODEL', str(folder / 'model'))
    monkeypatch.setenv('TEG_TABLES', tables)
    return TestClient(runpy.run_path(str(EXAMPLE))['app'])


def test_new_accounts_of_a_known_graph(folder, monkeypatch):
    assert len(EXAMPLE.read_text().splitlines()) < 60
    nodes = [{'id': 'new-1', 'amount': 2.5, 'age': None, 'kind': 'shop'}]
    ends = {'source': 'new-1', 'target': 'acc-3'}
    edges = [{**ends, 'type': 'pays', 'sum': 2}]
    server = client(folder, monkeypatch, str(folder))
    answer = server.post('/scores', json={'nodes': nodes, 'edges': edges})
    assert answer.status_code == 200
    [row] = answer.json()
    detector = EnergyFraudDetector.load(folder / 'model')
    layout = detector.preprocessing_.layout_.for_scoring()
    base = from_folder(folder, layout)
    grown = from_pandas(pd.DataFrame(nodes), pd.DataFrame(edges), layout, base)
    expected = detector.score_table(grown).iloc[-1]
    assert row['id'] == 'new-1'
    assert row['probability'] == pytest.approx(expected['probability'])
    assert row['flagged'] == bool(row['probability'] >= detector.threshold_)


def test_a_graph_of_its_own_and_errors(folder, monkeypatch):
    server = client(folder, monkeypatch, '')
    rows = [{'id': i, 'amount': i, 'age': 1, 'kind': 'user'} for i in (7, 8)]
    answer = server.post('/scores', json={'nodes': rows})
    assert answer.status_code == 200
    assert [row['id'] for row in answer.json()] == [7, 8]
    rows[1]['amount'] = 'much'
    answer = server.post('/scores', json={'nodes': rows})
    assert answer.status_code == 422
    assert "row 1, column 'amount'" in answer.json()['detail']
    edges = [{'source': 7, 'target': 9, 'type': 'pays', 'sum': 1}]
    answer = server.post('/scores', json={'nodes': rows[:1], 'edges': edges})
    assert answer.status_code == 422
    assert "id '9' is in no row" in answer.json()['detail']
