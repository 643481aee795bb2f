"""The examples of own data run, and say what they promise."""

import runpy
from pathlib import Path

import pytest

from torch_energy_graph import datasets
from torch_energy_graph.data.from_csv import from_folder

EXAMPLES = Path(__file__).parents[2] / 'examples'

pd = pytest.importorskip('pandas')


def test_own_csv(tmp_path, capsys):
    names = runpy.run_path(str(EXAMPLES / 'own_csv.py'))
    names['main'](tmp_path / 'my')
    out = capsys.readouterr().out
    area = float(out.split('test AUPRC')[1])
    assert 0.3 < area < 1  # 0.1 by chance
    assert out.count('acc-') == 5
    names['main'](tmp_path / 'my')  # the tables are there now
    assert capsys.readouterr().out == out


def test_tokolers_tables(data_root, require_file, tmp_path):
    require_file(data_root / 'tolokers.npz')
    names = runpy.run_path(str(EXAMPLES / 'make_tokolers_csv.py'))
    data = datasets.load('tolokers', data_root)
    nodes, edges = names['make_tables'](data)
    cells = nodes.drop(columns=['id', 'label'])
    assert cells.isna().to_numpy().mean() == pytest.approx(0.03, abs=0.002)
    assert len(edges) == data.num_edges // 2
    assert edges['type'].nunique() == 2
    # a corner of it, through files
    nodes, ids = nodes.head(1500), {*nodes['id'].head(1500)}
    edges = edges[edges['source'].isin(ids) & edges['target'].isin(ids)]
    nodes.to_csv(tmp_path / 'nodes.csv', index=False)
    edges.to_csv(tmp_path / 'edges.csv', index=False)
    table = from_folder(tmp_path)
    assert table.y.tolist() == data.y[:1500].tolist()
    corner = data.edge_index[:, (data.edge_index < 1500).all(dim=0)]
    pairs = {tuple(pair) for pair in table.edge_index.t().tolist()}
    assert pairs == {tuple(pair) for pair in corner.t().tolist()}
    assert table.relations == ('other_profile', 'same_profile')
    assert {*table.node_kinds.values()} == {'number', 'category', 'time'}
