import pytest
import torch

from torch_energy_graph.datasets import repertoires
from torch_energy_graph.datasets.repertoires import (
    AMINO_ACIDS,
    Repertoires,
    read_repertoire,
)

FILES = {
    'a.tsv': 'amino_acid\ttemplates\nACD\t5\nYW\t1\nKKKK\t12\n',
    'b.tsv': 'templates\tv\tamino_acid\n7\tx\tGG\n',
    'c.tsv': 'amino_acid\ttemplates\n',
}
TABLE = 'ID\ttarget\na.tsv\t+\nb.tsv\t-\nc.tsv\t-\n'


@pytest.fixture
def table(place, folder):
    for name, text in FILES.items():
        place(f'repertoires/{name}', text.encode())
    return place('metadata.tsv', TABLE.encode())


@pytest.mark.parametrize('chunk', [1, 2, 100])
def test_a_file_in_chunks(chunk, table, folder, monkeypatch):
    monkeypatch.setattr(repertoires, '_CHUNK', chunk)
    symbols, counts = read_repertoire(folder / 'repertoires' / 'a.tsv', 4)
    texts = [
        ''.join(AMINO_ACIDS[i] for i in row if i >= 0)
        for row in symbols.tolist()
    ]
    assert texts == ['ACD', 'YW', 'KKKK']
    assert symbols[0].tolist() == [0, 1, 2, -1]
    assert counts.tolist() == [5, 1, 12]


def test_bags_are_read_when_asked_for(table, folder):
    bags = Repertoires.from_table(table, 'target', '+', max_length=4)
    assert len(bags) == 3
    assert bags.y.tolist() == [1, 0, 0]
    (folder / 'repertoires' / 'b.tsv').unlink()
    part = bags.select(torch.tensor([2, 0]))  # without b.tsv
    assert part.ptr.tolist() == [0, 0, 3]
    assert part.y.tolist() == [0, 1]
    assert part.x.shape == (3, 4)
    with pytest.raises(FileNotFoundError, match=r'b\.tsv'):
        bags.select(torch.tensor([1]))


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('amino_acid\tcount\nAC\t1\n', r'columns templates in .*got amino'),
        ('', r'columns amino_acid, templates.*got none'),
        ('amino_acid\ttemplates\nAC\t1\nACDEF\t1\n', r'line 3 .got 5'),
        ('amino_acid\ttemplates\nAC\t1\n\t1\n', r'line 3 .got 0'),
        ('amino_acid\ttemplates\nAC\t1\nA*C\t1\n', r"line 3 .got 'A\*C'"),
        ('amino_acid\ttemplates\nAC\t1\nacd\t1\n', r"line 3 .got 'acd'"),
        ('amino_acid\ttemplates\nAC\tmany\n', r"line 2 .got 'many'"),
        ('amino_acid\ttemplates\nAC\n', r'line 2 .got None'),
    ],
)
@pytest.mark.parametrize('chunk', [1, 100])
def test_bad_files(text, message, chunk, place, monkeypatch):
    monkeypatch.setattr(repertoires, '_CHUNK', chunk)
    path = place('bad.tsv', text.encode())
    with pytest.raises(ValueError, match=message):
        read_repertoire(path, 4)


def test_bad_tables(table):
    with pytest.raises(ValueError, match=r'both classes.*0 of 3 rows'):
        Repertoires.from_table(table, 'target', 'yes')
    with pytest.raises(ValueError, match='columns label'):
        Repertoires.from_table(table, 'label', '+')


def test_the_public_example(shared_root, require_file):
    folder = shared_root / 'data_raw' / 'deeprc_example'
    table = require_file(folder / 'metadata.tsv')
    bags = Repertoires.from_table(table, 'binary_target_1', '+')
    assert len(bags) == 100
    part = bags.select(torch.arange(100))
    assert 20 < part.x.size(0) / 100 < 40
    assert ((part.x >= 0).sum(1) >= 1).all()
