import json

import pytest

from torch_energy_graph.bench import (
    BenchConfig,
    ConfigError,
    Group,
    RunFolder,
    Search,
    Tuning,
    UnavailableError,
    load_config,
    plan,
    recheck,
    register_model,
    run,
    write_report,
)
from torch_energy_graph.bench.tuning import candidates

CONFIG = """
name: tuned
groups:
  - {datasets: [tiny], protocol: et-40pct, splits: [0, 1]}
models:
  centroid: {scale: 0.5}
tuning:
  budget: 3
  grids:
    centroid: {scale: [1e0, -1]}
"""


def test_the_given_setting_is_tried_first():
    search = Search({'a': (1, 2), 'b': (3, 4)}, budget=20, seed=0, during={})
    tried = candidates({'a': 2, 'b': 3, 'c': 5}, search)
    assert tried == [
        {'a': 2, 'b': 3, 'c': 5},
        {'a': 1, 'b': 3, 'c': 5},
        {'a': 1, 'b': 4, 'c': 5},
        {'a': 2, 'b': 4, 'c': 5},
    ]


def test_a_large_grid_is_sampled_within_the_budget():
    grid = {key: tuple(range(10)) for key in 'abc'}
    search = Search(grid, budget=7, seed=1, during={})
    tried = candidates({'a': 'given'}, search)
    assert len(tried) == 7
    assert tried[0] == {'a': 'given'}
    assert len({json.dumps(p, sort_keys=True) for p in tried}) == 7
    assert tried == candidates({'a': 'given'}, search)
    assert tried != candidates({'a': 'given'}, Search(grid, 7, 2, {}))


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ('budget: 3', 'budget: 21', "'budget': expected 1 to 20"),
        ('budget: 3', 'budget: 0', "'budget': expected 1 to 20"),
        ('[1e0, -1]', '[]', "'centroid.scale': expected at least one"),
        ('[1e0, -1]', '3', 'scale: expected a list'),
    ],
)
def test_bad_files(tiny, write_config, old, new, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write_config(CONFIG.replace(old, new)))


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ('centroid: {scale: [', 'centroit: {scale: [', "did you mean 'centr"),
        ('scale: [', 'scala: [', "grids.centroid: unknown key 'scala'"),
        (
            'budget: 3',
            'during: {centroit: {}}',
            'none of the models that are t',
        ),
        ('budget: 3', 'during: {centroid: {a: 1}}', "unknown key 'a'"),
        ('1e0', 'big', r'grids\.centroid\.scale: expected float'),
    ],
)
def test_bad_grids(tiny, write_config, old, new, message):
    with pytest.raises(ConfigError, match=message):
        plan(load_config(write_config(CONFIG.replace(old, new))))


def test_the_best_on_validation_runs_on_all_splits(
    tiny, write_config, tmp_path
):
    units = plan(load_config(write_config(CONFIG)))
    assert [unit.search.grid for unit in units] == [{'scale': (1.0, -1.0)}] * 2
    folder = RunFolder(tmp_path / 'run')
    folder.write_plan(units, {'name': 'tuned', 'command': 'c'})
    summary = run(folder, units)
    assert (summary.done, summary.failed) == (2, 0)
    tries = [
        json.loads(file.read_text())
        for file in (tmp_path / 'run' / 'tuning').glob('*.json')
    ]
    assert sorted(t['unit']['params']['scale'] for t in tries) == [-1, 0.5, 1]
    assert all(t['unit']['split'] == 0 for t in tries)
    assert all('test' not in t and set(t['val']) == {'auprc', 'auroc'}
               for t in tries)  # fmt: skip
    for unit in units:
        row = folder.read(unit)
        # all scales above 0 rank alike: the first, which is the given one
        assert row['params']['scale'] == 0.5
        assert row['tuning']['tries'] == 3
        assert row['unit']['config'] == unit.config
    stored = recheck(folder.read_plan()[0])
    assert stored == units
    assert run(folder, stored).skipped == 2
    text = write_report(folder)
    assert '- centroid: scale 0.5 (3 tried)' in text
    assert '""scale"": 0.5' in (tmp_path / 'run/results.csv').read_text()


def tuned(model, grid):
    group = Group(('tiny',), 'et-40pct', (0, 1))
    return plan(
        BenchConfig('t', (group,), {model: {}}, tuning=Tuning({model: grid}))
    )


def test_failed_tries_are_recorded_and_not_chosen(tiny, tmp_path):
    units = tuned('broken', {'fail': (True, False)})
    folder = RunFolder(tmp_path)
    assert run(folder, units).done == 2
    row = folder.read(units[1])
    assert row['params'] == {'fail': False}
    assert (row['tuning']['tries'], row['tuning']['failed']) == (2, 1)


def test_when_every_try_fails_the_unit_fails(tiny, tmp_path):
    units = tuned('broken', {'fail': (True,)})
    folder = RunFolder(tmp_path)
    assert run(folder, units).failed == 2
    assert (
        'all 1 settings of the tuning failed' in folder.read(units[0])['error']
    )


def test_some_parameters_hold_in_tries_only(tiny, write_config, tmp_path):
    text = CONFIG + '  during: {centroid: {sleep: 0.001}}\n'
    units = plan(load_config(write_config(text)))
    folder = RunFolder(tmp_path / 'run')
    run(folder, units)
    assert folder.read(units[0])['params']['sleep'] == 0
    tries = [
        json.loads(file.read_text())['unit']['params']['sleep']
        for file in (tmp_path / 'run' / 'tuning').glob('*.json')
    ]
    assert tries == [0.001] * 3


def test_a_missing_package_skips_a_tuned_model(tiny, tmp_path):
    @register_model('elsewhere')
    def elsewhere(data, split, seed, *, size: int = 1):
        raise UnavailableError('needs elsewhere')

    units = tuned('elsewhere', {'size': (1, 2)})
    folder = RunFolder(tmp_path)
    summary = run(folder, units)
    assert (summary.unavailable, summary.failed) == (2, 0)
    assert not (tmp_path / 'tuning').exists()
    folder.write_plan(units, {'name': 't', 'command': 'c'})
    assert '- skipped: elsewhere, 2 units: needs elsewhere' in (
        write_report(folder)
    )


def test_tuning_sees_no_test_label(tiny, tmp_path):
    @register_model('spy_tuned')
    def spy_tuned(data, split, seed, *, size: int = 1):
        assert (data.y[~(split.train | split.val)] == -1).all()
        return tiny.centroid(data, split, seed)

    assert run(RunFolder(tmp_path), tuned('spy_tuned', {'size': (2,)})).done
