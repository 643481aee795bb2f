"""A small detector on small tables, trained once by ``teg train``."""

import pytest

from tests.detect.graphs import fraud_graph
from torch_energy_graph.cli import main

TINY = ['epochs=2', 'eval_every=1', 'ensemble=2', 'num_parts=2']
TINY += ['hidden_channels=8', 'bins=4']


@pytest.fixture
def teg(capsys):
    """Run ``teg``: exit code, standard output and standard error."""

    def run(*args):
        code = main([str(arg) for arg in args])
        return code, *capsys.readouterr()

    return run


def flat(err):
    """An error in a box as one line."""
    return ' '.join(err.replace('│', ' ').split())


def write_tables(folder, seed=0):
    pytest.importorskip('pandas')
    from tests.detect.test_tables import tables

    nodes, edges = tables(fraud_graph(seed=seed))
    folder.mkdir()
    nodes.to_csv(folder / 'nodes.csv', index=False)
    edges.to_csv(folder / 'edges.csv', index=False)
    return folder


@pytest.fixture(scope='session')
def folder(tmp_path_factory):
    """Tables of 240 accounts."""
    return write_tables(tmp_path_factory.mktemp('tables') / 'my')


@pytest.fixture(scope='session')
def settings():
    """Options that make a detector small."""
    return [part for text in TINY for part in ('--set', text)]


@pytest.fixture(scope='session')
def run(folder, settings, tmp_path_factory):
    """Folder of a finished training."""
    out = tmp_path_factory.mktemp('runs') / 'my'
    assert main(['train', str(folder), '--out', str(out), *settings]) == 0
    return out
