"""The detector on tables, and its example."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.detect.graphs import SMALL, fraud_graph
from torch_energy_graph.data.from_pandas import from_pandas
from torch_energy_graph.detect import EnergyFraudDetector

pd = pytest.importorskip('pandas')
EXAMPLE = Path(__file__).parents[2] / 'examples' / 'fraud_detector.py'


def tables(data):
    nodes = pd.DataFrame(data.x[:, :2].numpy(), columns=['amount', 'age'])
    nodes['kind'] = np.where(data.x[:, 2] > 0, 'shop', 'user')
    nodes.loc[::30, 'age'] = np.nan
    nodes['label'] = data.y.numpy()
    nodes.insert(0, 'id', [f'acc-{i}' for i in range(len(nodes))])
    edges = pd.DataFrame(data.edge_index.t().numpy()).map('acc-{}'.format)
    edges.columns = ['source', 'target']
    edges['type'] = np.where(np.arange(len(edges)) % 3, 'pays', 'device')
    edges['sum'] = np.arange(len(edges)) % 7
    return nodes, edges


def test_ids_come_back_and_rows_may_be_in_any_order(tmp_path):
    nodes, edges = tables(fraud_graph())
    table = from_pandas(nodes, edges)
    short = {**SMALL, 'epochs': 2, 'ensemble': 1}
    detector = EnergyFraudDetector(**short).fit(table)
    scores = detector.score_table(table).set_index('id')['probability']
    assert [*scores.index] == nodes['id'].tolist()
    assert detector.scorer_.shape.num_relations == 2
    detector.save(tmp_path)
    loaded = EnergyFraudDetector.load(tmp_path)
    shuffled = from_pandas(
        nodes.sample(frac=1, random_state=0),
        edges.sample(frac=1, random_state=1),
        loaded.preprocessing_.layout_,
    )
    again = loaded.score_table(shuffled).set_index('id')['probability']
    np.testing.assert_allclose(again[scores.index], scores, atol=1e-6)
    reasons = loaded.explain(table, 'acc-3', top=1)
    assert {row['feature'] for row in reasons.features} == {
        *detector.preprocessing_.feature_names_
    }
    graph_only = EnergyFraudDetector(**short).fit(fraud_graph())
    with pytest.raises(ValueError, match='not on tables'):
        graph_only.predict(table)


def test_the_example_runs(tmp_path, capsys):
    assert len(EXAMPLE.read_text().splitlines()) < 60
    runpy.run_path(str(EXAMPLE))['main'](tmp_path / 'my')
    out = capsys.readouterr().out
    assert 'new-1' in out
    assert 'without' in out
