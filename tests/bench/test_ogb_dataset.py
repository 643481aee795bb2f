import builtins
import gzip
import pickle
import shutil
import sys
from urllib.request import urlopen as real_urlopen

import numpy as np
import pytest
import torch

from torch_geometric.utils import scatter

from tests.bench.ogb_files import (
    NUM_NODES,
    csv,
    read_csv,
    write_arxiv,
    write_products,
    write_proteins,
)
from torch_energy_graph.bench import ogb_dataset
from torch_energy_graph.bench.ogb_data import DataParams, load_task
from torch_energy_graph.bench.ogb_dataset import OGBDataset


@pytest.fixture(autouse=True)
def no_prompt(monkeypatch):
    def refuse(*_):
        pytest.fail('standard input was read')

    monkeypatch.setattr(builtins, 'input', refuse)


class Bomb:
    def __reduce__(self):
        return (open, ('/nonexistent/exploded', 'w'))


def test_ogb_is_imported_without_its_version_check():
    assert sys.modules['ogb.version'].check_outdated is None
    assert sys.modules.get('outdated', 'not imported') is not None


def test_arxiv_is_what_the_files_say(tmp_path):
    folder = write_arxiv(tmp_path)
    task = load_task('ogbn-arxiv', DataParams(), tmp_path)
    raw = folder / 'raw'
    edge = read_csv(raw / 'edge').astype(int).T
    found = {tuple(pair) for pair in task.graph.edge_index.t().tolist()}
    assert found == {tuple(pair) for pair in edge.T.tolist()}
    features = torch.tensor(read_csv(raw / 'node-feat'), dtype=torch.float)
    torch.testing.assert_close(task.graph.x, features)
    assert task.y.tolist() == read_csv(raw / 'node-label').tolist()
    for part, index in task.split.items():
        stored = read_csv(folder / 'split' / 'time' / part)
        assert index.tolist() == stored.reshape(-1).tolist()
    assert (task.metric, task.out_channels) == ('acc', 40)
    assert 'y' not in task.graph
    both = load_task('ogbn-arxiv', DataParams(undirected=True), tmp_path)
    assert both.graph.num_edges == 2 * edge.shape[1]
    assert both.graph.is_undirected()


def test_products_get_their_reverse_edges_from_ogb(tmp_path):
    folder = write_products(tmp_path)
    task = load_task('ogbn-products', DataParams(), tmp_path)
    edge = read_csv(folder / 'raw' / 'edge')
    assert task.graph.num_edges == 2 * len(edge)
    assert task.graph.is_undirected()
    assert task.out_channels == 47


@pytest.mark.parametrize('reduce', ['mean', 'sum'])
def test_proteins_get_their_features_from_edges(tmp_path, reduce):
    folder = write_proteins(tmp_path)
    task = load_task(
        'ogbn-proteins', DataParams(edge_features=reduce), tmp_path
    )
    edge = torch.tensor(read_csv(folder / 'raw' / 'edge')).long().t()
    weight = torch.tensor(read_csv(folder / 'raw' / 'edge-feat')).float()
    ends = edge.reshape(-1)  # every edge counts at both of its ends
    expected = scatter(
        weight.repeat(2, 1), ends, dim_size=NUM_NODES, reduce=reduce
    )
    torch.testing.assert_close(task.graph.x, expected)
    assert 'edge_attr' not in task.graph
    assert (task.metric, task.out_channels) == ('rocauc', 112)
    assert task.split['test'].tolist() == list(range(60, 90))


def test_the_folder_of_the_pyg_zip_and_of_data_roots_is_found(
    tmp_path, monkeypatch
):
    write_arxiv(tmp_path / 'ogb').rename(tmp_path / 'ogb' / 'ogbn_arxiv_pyg')
    monkeypatch.setenv('TEG_DATA', str(tmp_path))
    assert load_task('ogbn-arxiv', DataParams()).graph.num_nodes == NUM_NODES


def test_a_second_load_reads_tensors_only(tmp_path):
    folder = write_arxiv(tmp_path)
    first = load_task('ogbn-arxiv', DataParams(), tmp_path)
    shutil.rmtree(folder / 'raw')  # of the processed file alone
    (folder / 'raw').mkdir()
    for name in ('edge', 'node-feat'):  # which PyG looks for
        csv(folder / 'raw' / name, [])
    # PyG's own loader would unpickle these
    for name in ('pre_transform.pt', 'pre_filter.pt'):
        (folder / 'processed' / name).write_bytes(pickle.dumps(Bomb()))
    second = load_task('ogbn-arxiv', DataParams(), tmp_path)
    assert torch.equal(first.graph.x, second.graph.x)
    assert torch.equal(first.y, second.y)


def test_the_split_dict_of_numpy_arrays_is_read(tmp_path):
    folder = write_arxiv(tmp_path)
    parts = {'train': [3, 1], 'valid': [2], 'test': [4, 0]}
    torch.save(
        {key: np.array(value) for key, value in parts.items()},
        folder / 'split' / 'time' / 'split_dict.pt',
    )
    task = load_task('ogbn-arxiv', DataParams(), tmp_path)
    assert {k: v.tolist() for k, v in task.split.items()} == parts


@pytest.mark.parametrize('name', ['processed', 'split'])
def test_a_pickle_is_refused(tmp_path, name):
    folder = write_arxiv(tmp_path)
    if name == 'processed':
        file = folder / 'processed' / 'geometric_data_processed.pt'
        file.parent.mkdir()
    else:
        file = folder / 'split' / 'time' / 'split_dict.pt'
    torch.save(Bomb(), file)
    with pytest.raises(ValueError, match='delete it') as caught:
        load_task('ogbn-arxiv', DataParams(), tmp_path)
    assert str(file) in str(caught.value)


def test_a_truncated_processed_file_is_named(tmp_path):
    folder = write_arxiv(tmp_path)
    load_task('ogbn-arxiv', DataParams(), tmp_path)
    file = folder / 'processed' / 'geometric_data_processed.pt'
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(ValueError, match=r'processed\.pt.*delete it'):
        load_task('ogbn-arxiv', DataParams(), tmp_path)


def test_an_absent_dataset_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match='--download') as caught:
        load_task('ogbn-arxiv', DataParams(), tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match='one of ogbn-arxiv'):
        load_task('ogbn-mag', DataParams(), tmp_path)


@pytest.mark.parametrize(
    ('absent', 'message'),
    [
        ('RELEASE_v1.txt', 'no RELEASE_v1.txt.*move it away'),
        ('raw/edge.csv.gz', r'edge\.csv\.gz.*--download'),
        ('raw/node-label.csv.gz', 'cannot read.*move the folder'),
        ('raw/num-node-list.csv.gz', 'cannot read.*move the folder'),
        ('split/time/test.csv.gz', r'test\.csv\.gz.*move its folder'),
    ],
)
def test_an_incomplete_folder_is_not_touched(tmp_path, absent, message):
    folder = write_arxiv(tmp_path)
    (folder / absent).unlink()
    with pytest.raises((OSError, ValueError), match=message):
        load_task('ogbn-arxiv', DataParams(), tmp_path)
    assert (folder / 'raw' / 'node-feat.csv.gz').exists()
    if absent.startswith('raw/edge'):
        with pytest.raises(FileExistsError, match='move it away'):
            load_task('ogbn-arxiv', DataParams(), tmp_path, download=True)


def test_a_folder_that_cannot_be_written(tmp_path):
    folder = write_arxiv(tmp_path)
    (folder / 'processed').write_text('in the way')
    with pytest.raises(OSError, match=r'cannot write.*give it as --root'):
        load_task('ogbn-arxiv', DataParams(), tmp_path)


@pytest.mark.parametrize(
    ('name', 'rows', 'message'),
    [
        ('raw/node-label', [[0]] * 7, '7 labels of 90 nodes'),
        ('split/time/test', [[90]], 'outside of 0 to 89'),
        ('split/time/test', [[1], [1]], 'two parts'),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, name, rows, message):
    folder = write_arxiv(tmp_path)
    csv(folder / name, rows)
    with pytest.raises(ValueError, match=message):
        load_task('ogbn-arxiv', DataParams(), tmp_path)


def serve(monkeypatch, archive):
    """Answer the request for the dataset with a local file."""
    asked = []

    def urlopen(url):
        asked.append(url)
        return real_urlopen(archive.as_uri())

    monkeypatch.setattr(ogb_dataset, 'urlopen', urlopen)
    return asked


def test_download_when_told_to(tmp_path, monkeypatch):
    source, root = tmp_path / 'source', tmp_path / 'root'
    write_arxiv(source).rename(source / 'arxiv')
    name = shutil.make_archive(str(tmp_path / 'zip'), 'zip', source, 'arxiv')
    asked = serve(monkeypatch, tmp_path / 'zip.zip')
    task = load_task('ogbn-arxiv', DataParams(), root, download=True)
    assert asked == [
        'http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip'
    ]
    assert name == str(tmp_path / 'zip.zip')
    assert task.graph.num_nodes == NUM_NODES
    assert [path.name for path in root.iterdir()] == ['ogbn_arxiv']
    load_task('ogbn-arxiv', DataParams(), root, download=True)
    assert len(asked) == 1


def test_a_broken_archive_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / 'zip.zip').write_bytes(gzip.compress(b'no zip'))
    serve(monkeypatch, tmp_path / 'zip.zip')
    with pytest.raises(ValueError, match='damaged'):
        load_task('ogbn-arxiv', DataParams(), tmp_path / 'root', download=True)
    assert list((tmp_path / 'root').iterdir()) == []


def test_a_short_answer_is_an_error(tmp_path, monkeypatch):
    (tmp_path / 'zip.zip').write_bytes(b'half')

    def urlopen(url):
        answer = real_urlopen((tmp_path / 'zip.zip').as_uri())
        answer.headers.replace_header('Content-Length', '8')
        return answer

    monkeypatch.setattr(ogb_dataset, 'urlopen', urlopen)
    with pytest.raises(ConnectionError, match='after 4 of 8 bytes'):
        OGBDataset('ogbn-arxiv', tmp_path / 'root', download=True)
