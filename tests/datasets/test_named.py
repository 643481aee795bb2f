import numpy as np
import pytest

from tests.data.dgl_writer import node_graph
from torch_energy_graph import datasets
from torch_energy_graph.bench.registry import load_task, require_dataset
from torch_energy_graph.datasets.named import NAMED


def small():
    return node_graph(
        np.array([[0, 1, 2], [1, 0, 2]]),
        feature=np.eye(4, dtype=np.float32),
        label=np.array([0, 1, 0, 0]),
        **{
            f'{part}_masks': np.eye(4, dtype=bool)[:, i : i + 1]
            for i, part in enumerate(('train', 'val', 'test'))
        },
    )


def test_names():
    assert {'dgraphfin', 'elliptic', 'fraud_amazon', 'fraud_yelp'} < set(NAMED)
    assert {'tfinance', 'tsocial', 'gadbench_reddit'} < set(NAMED)
    assert {'gadbench_hetero_yelp'} < set(NAMED)
    for entry in NAMED.values():
        assert all(entry.origin)
        assert entry.notes


def test_a_named_graph_is_listed_and_described(place, folder):
    path = place('GADBench/reddit', small())
    cards = {card.name: card for card in datasets.available(folder)}
    embedded = {'digits', 'digits_outlier'}
    assert set(cards) == {*embedded, 'gadbench_reddit'}
    assert cards['gadbench_reddit'].path == path
    facts = datasets.info('gadbench_reddit', folder)
    assert facts['num_nodes'] == 4
    assert facts['num_self_loops'] == 1
    assert facts['num_labeled'] == 3
    assert facts['splits'] == {'gadbench': 1}
    assert 'GADBench' in facts['source']
    assert facts['notes']


def test_the_benchmark_finds_named_graphs(place, folder, monkeypatch):
    place('tfinance', small())
    monkeypatch.setenv('TEG_DATA', str(folder))
    require_dataset('tfinance')
    task = load_task('tfinance')
    assert task.data.num_nodes == 4
    assert set(task.splits) == {'gadbench'}


@pytest.mark.parametrize('name', sorted(NAMED))
def test_nothing_is_fetched_and_the_message_says_where(name, folder):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load(name, folder)
    for part in (NAMED[name].places[0], str(folder), 'TEG_DATA'):
        assert part in str(caught.value)


def test_an_npz_graph_may_have_the_name(arrays, save):
    ds = datasets.get('tfinance', save(arrays, 'tfinance'))
    assert isinstance(ds, datasets.NpzGraph)


def test_find():
    assert datasets.find('digits_outlier') is None
    with pytest.raises(ValueError, match='name of a dataset'):
        datasets.find('../x')
