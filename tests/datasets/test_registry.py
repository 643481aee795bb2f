import json

import numpy as np
import pytest
import torch

from torch_energy_graph import datasets


def test_info_by_hand(arrays, save):
    arrays['edge_index'] = np.array([[0, 1, 2, 3, 4], [1, 0, 3, 2, 4]])
    arrays['labeled_mask'] = np.array([1, 1, 1, 1, 1, 0], dtype=bool)
    root = save(arrays)
    assert datasets.info('tiny', root) == {
        'name': 'tiny',
        'task': 'anomaly',
        'num_nodes': 6,
        'num_edges': 5,
        'num_features': 2,
        'num_self_loops': 1,
        'num_isolated': 2,
        'undirected': True,
        'num_labeled': 5,
        'num_classes': 2,
        'num_anomalies': 2,
        'prevalence': 0.4,
        # 0-1 differ in both directions; 2-3 and the loop at 4 agree
        'homophily': pytest.approx(0.6),
        # of 0-1 into the anomaly 1, and of the loop at the anomaly 4
        'anomaly_homophily': 0.0,
        'splits': {'official': 1},
        'source': 'made',
        'licence': 'MIT',
        'notes': [],
        'path': str(root / 'tiny.npz'),
    }
    assert json.dumps(datasets.info('tiny', root))


def test_anomaly_homophily_by_hand(arrays, save):
    arrays['edge_index'] = np.array([[0, 4, 2, 1], [1, 1, 1, 0]])
    facts = datasets.info('tiny', save(arrays))
    assert facts['anomaly_homophily'] == pytest.approx(1 / 3)


def test_homophily_without_labelled_edges(arrays, save):
    arrays['labeled_mask'] = np.array([1, 0, 1, 0, 1, 1], dtype=bool)
    assert datasets.info('tiny', save(arrays))['homophily'] is None


def test_available_lists_node_graphs_only(arrays, save, folder):
    save(arrays)
    save({**arrays, 'y': np.arange(6)}, 'classes')
    save({'signal': np.zeros((3, 2))}, 'series')
    save({**arrays, 'edge_ptr': np.zeros(2)}, 'many_graphs')
    cards = {card.name: card for card in datasets.available(folder)}
    assert list(cards) == ['classes', 'digits', 'digits_outlier', 'tiny']
    assert cards['tiny'].task == 'anomaly'
    assert cards['tiny'].path == folder / 'tiny.npz'
    assert cards['classes'].task == 'classification'
    assert cards['digits_outlier'].path is None


def test_available_tells_of_broken_files(arrays, save, folder):
    save(arrays)
    (folder / 'broken.npz').write_bytes(b'no zip')
    with pytest.warns(UserWarning, match=r'broken\.npz'):
        cards = datasets.available(folder)
    embedded = ['digits', 'digits_outlier']
    assert [card.name for card in cards] == [*embedded, 'tiny']


def test_roots_are_searched_in_order(arrays, folder, monkeypatch):
    places = {
        'own': folder / 'own',
        'TEG_DATA': folder / 'teg_data',
        'TEG_SHARED': folder / 'shared',
        'HOME': folder / 'home',
    }
    files = [
        places['own'],
        places['TEG_DATA'],
        places['TEG_SHARED'] / 'data',
        places['HOME'] / '.cache' / 'torch_energy_graph',
    ]
    monkeypatch.setenv('TEG_DATA', str(places['TEG_DATA']))
    monkeypatch.setenv('TEG_SHARED', str(places['TEG_SHARED']))
    monkeypatch.setenv('HOME', str(places['HOME']))
    assert datasets.data_roots(places['own']) == files
    for number, place in enumerate(files):
        place.mkdir(parents=True)
        arrays['x'] = np.full((6, 2), float(number))
        np.savez(place / 'tiny.npz', **arrays)
    for number, place in enumerate(files):
        data = datasets.load('tiny', root=places['own'])
        assert data.x[0, 0] == number
        (place / 'tiny.npz').unlink()


def test_missing_file_names_folders_and_mend(folder, monkeypatch):
    monkeypatch.setenv('TEG_DATA', '/nowhere')
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load('absent', root=folder)
    for part in ('absent', str(folder), '/nowhere', '.cache', 'set TEG_DATA'):
        assert part in str(caught.value)


@pytest.mark.parametrize('name', ['../tiny', 'tiny.npz', 'a/b', '', '-x'])
def test_names_are_no_paths(name, folder):
    with pytest.raises(ValueError, match='name of a dataset'):
        datasets.load(name, root=folder)


# research counts: nodes, directed edges, features, labelled, anomalies
REAL = {
    'tolokers': (11758, 1038000, 10, 11758, 2566),
    'reddit': (10984, 168016, 64, 10984, 366),
    'amazon_fraud_upu': (10224, 351216, 25, 7929, 693),
    'yelpchi_rur': (23831, 98630, 32, 23831, 1217),
    'books': (1418, 7390, 21, 1418, 28),
    'disney': (124, 670, 28, 124, 6),
    'minesweeper': (10000, 78804, 7, 10000, 2000),
    'inj_cora': (2708, 11148, 1433, 2708, 138),
    'gen_500': (500, 2662, 64, 500, 20),
}


@pytest.mark.parametrize('name', REAL)
def test_real_anomaly_sets(name, data_root, require_file):
    require_file(data_root / f'{name}.npz')
    facts = datasets.info(name, data_root)
    keys = ('num_nodes', 'num_edges', 'num_features')
    keys = (*keys, 'num_labeled', 'num_anomalies')
    assert tuple(facts[key] for key in keys) == REAL[name]
    assert facts['task'] == 'anomaly'
    assert facts['notes']


def test_real_splits(data_root, require_file):
    require_file(data_root / 'tolokers.npz')
    splits = datasets.NpzGraph('tolokers', data_root).splits
    assert {key: s[0].size(1) for key, s in splits.items()} == {
        'official': 10,
        'gadbench': 20,
    }
    covered = torch.stack(splits['official']).sum(0)
    assert (covered == 1).all()


def test_all_real_node_graphs_load(data_root):
    names = [card.name for card in datasets.available(data_root)]
    for name in names:
        data = datasets.load(name, data_root)
        assert data.validate()
        assert torch.isfinite(data.x).all()


def test_amazon_trap(data_root, require_file):
    require_file(data_root / 'amazon_fraud_upu.npz')
    data = datasets.load('amazon_fraud_upu', data_root)
    assert (data.y[:2295] == -1).all()
    assert (data.y[2295:] >= 0).all()
