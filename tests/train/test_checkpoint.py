import errno
import json
import os

import pytest
import torch

from torch_energy_graph.train import checkpoint
from torch_energy_graph.train.checkpoint import (
    load_state,
    load_tensors,
    save_state,
    save_tensors,
    write_atomic,
)


def tensors(value):
    return {'a': torch.full((3, 2), float(value)), 'n': torch.tensor(value)}


def test_states_replace_each_other(tmp_path):
    assert load_state(tmp_path) is None
    for value in range(4):
        save_state(tmp_path, tensors(value), {'epoch': value})
        found, values = load_state(tmp_path)
        assert values == {'epoch': value}
        torch.testing.assert_close(found, tensors(value))
        names = [path.name for path in tmp_path.iterdir()]
        assert len(names) == 2


@pytest.mark.parametrize('step', ['tensors', 'json'])
def test_the_old_state_stays_if_the_writer_dies(tmp_path, monkeypatch, step):
    save_state(tmp_path, tensors(1), {'epoch': 1})
    replace = os.replace

    def die(source, target):
        if str(target).endswith('.json') == (step == 'json'):
            raise OSError('no space left')
        replace(source, target)

    monkeypatch.setattr(checkpoint.os, 'replace', die)
    with pytest.raises(OSError, match='no space'):
        save_state(tmp_path, tensors(2), {'epoch': 2})
    monkeypatch.undo()
    found, values = load_state(tmp_path)
    assert values == {'epoch': 1}
    torch.testing.assert_close(found, tensors(1))
    save_state(tmp_path, tensors(3), {'epoch': 3})
    assert load_state(tmp_path)[1] == {'epoch': 3}


def test_views_and_shared_tensors_are_copied(tmp_path):
    base = torch.arange(6.0).view(2, 3)
    save_tensors(tmp_path / 'x', {'t': base.t(), 'same': base, 'again': base})
    found = load_tensors(tmp_path / 'x')
    assert torch.equal(found['t'], base.t())
    assert torch.equal(found['again'], base)


def test_damaged_files_are_refused(tmp_path):
    save_state(tmp_path, tensors(1), {'epoch': 1})
    state = json.loads((tmp_path / 'state.json').read_text())
    file = tmp_path / state['tensors']
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match='is absent or not the file'):
        load_state(tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match='is absent or not the file'):
        load_state(tmp_path)
    (tmp_path / 'bad').write_bytes(b'no tensors')
    with pytest.raises(ValueError, match='as safetensors'):
        load_tensors(tmp_path / 'bad')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('{', 'cannot read'),
        ('[]', 'no state of a training'),
        ('{"tensors": "../../other"}', 'no state of a training'),
    ],
)
def test_a_damaged_json_is_refused(tmp_path, text, message):
    (tmp_path / 'state.json').write_text(text)
    with pytest.raises(ValueError, match=message):
        load_state(tmp_path)


def test_bytes_and_text_are_written_whole(tmp_path):
    for content in ('text \u00e9', b'\x00\xff'):
        write_atomic(tmp_path / 'new' / 'file', content)
        found = (tmp_path / 'new' / 'file').read_bytes()
        assert found == (
            content.encode() if isinstance(content, str) else content
        )
    assert len(list((tmp_path / 'new').iterdir())) == 1


def test_a_full_disk_says_where(tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / 'file'
    path.write_text('old')
    monkeypatch.setattr('os.fsync', full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_atomic(path, 'new')
    assert path.read_text() == 'old'
    assert [*tmp_path.iterdir()] == [path]
