import json

import pytest

from torch_energy_graph.bench import ConfigError, RunFolder, Unit
from torch_energy_graph.bench.store import write_atomic

UNIT = Unit('tiny', 'centroid', 'et-40pct', 0, 3, {'b': [1, 2], 'a': None})


def test_equal_units_have_equal_keys():
    again = Unit(
        'tiny', 'centroid', 'et-40pct', 0, 3, {'a': None, 'b': (1, 2)}
    )
    assert again.key == UNIT.key
    other = Unit('tiny', 'centroid', 'et-40pct', 0, 3, {'b': [1], 'a': None})
    assert other.key != UNIT.key
    assert UNIT.key.startswith('tiny--centroid--et-40pct--s0--r3--')


def test_write_and_read(tmp_path):
    folder = RunFolder(tmp_path / 'run')
    assert folder.read(UNIT) is None
    folder.write(UNIT, {'status': 'ok', 'value': 0.1})
    assert folder.read(UNIT) == {'status': 'ok', 'value': 0.1}
    folder.write_plan([UNIT], {'name': 'x', 'command': 'c'})
    units, about = folder.read_plan()
    assert [unit.key for unit in units] == [UNIT.key]
    assert about == {'name': 'x', 'command': 'c'}


def test_a_failed_write_leaves_the_old_file(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write(UNIT, {'status': 'ok'})
    with pytest.raises(ValueError, match='not JSON compliant'):
        folder.write(UNIT, {'status': float('nan')})
    with pytest.raises(UnicodeEncodeError):
        write_atomic(tmp_path / 'units' / f'{UNIT.key}.json', '\ud800')
    assert folder.read(UNIT) == {'status': 'ok'}
    assert [p.suffix for p in (tmp_path / 'units').iterdir()] == ['.json']


def test_half_written_files_are_no_results_and_go_away(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write(UNIT, {'status': 'ok'})
    file = tmp_path / 'units' / f'{UNIT.key}.json'
    temporary = file.with_name(f'{file.name}.123.tmp')
    temporary.write_text(file.read_text()[:5])
    file.unlink()
    assert folder.read(UNIT) is None
    assert folder.count_others([]) == 0
    with folder.lock():
        assert not temporary.exists()


def test_a_damaged_file_is_no_result(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write(UNIT, {'status': 'ok'})
    (tmp_path / 'units' / f'{UNIT.key}.json').write_text('{"status": "o')
    assert folder.read(UNIT) is None


def test_a_lock_is_for_one_runner(tmp_path):
    first, second = RunFolder(tmp_path).lock(), RunFolder(tmp_path).lock()
    with first, pytest.raises(BlockingIOError, match='another runner'):
        second.__enter__()
    with RunFolder(tmp_path).lock():
        pass


def test_a_folder_without_or_with_a_damaged_plan(tmp_path):
    unreadable = {'name': '', 'command': '', 'units': [{'dataset': 'a'}]}
    folder = RunFolder(tmp_path)
    with pytest.raises(ConfigError, match='not the folder of a run'):
        folder.read_plan()
    for text in ('{', '[]', '{}', json.dumps(unreadable)):
        (tmp_path / 'run.json').write_text(text)
        with pytest.raises(ConfigError, match=r'run\.json'):
            folder.read_plan()
