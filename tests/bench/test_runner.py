import dataclasses
import json

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from torch_energy_graph.bench import (
    BenchConfig,
    ConfigError,
    Group,
    RunFolder,
    Task,
    UnavailableError,
    Unit,
    evaluate,
    get_protocol,
    plan,
    recheck,
    register_model,
    run,
)


def config_of(models, **kwargs):
    group = Group(('tiny',), 'et-40pct', (0, 1))
    return BenchConfig('tiny', (group,), models, **kwargs)


def test_the_plan_is_a_grid(tiny):
    units = plan(config_of({'centroid': {}, 'nan': {}}, seeds=(0, 5)))
    assert len(units) == len({unit.key for unit in units}) == 8
    assert [(u.split, u.model, u.seed) for u in units[:4]] == [
        (0, 'centroid', 0),
        (0, 'centroid', 5),
        (0, 'nan', 0),
        (0, 'nan', 5),
    ]
    with pytest.raises(ConfigError, match=r'models\.centroid: unknown key'):
        plan(config_of({'centroid': {'x': 1}}))


def test_a_row_says_what_was_measured(tiny):
    unit = Unit('tiny', 'centroid', 'et-40pct', 0, 2, {'scale': 0.5})
    task = tiny.tiny()
    row = json.loads(json.dumps(evaluate(unit, task)))
    split = get_protocol('et-40pct').split(task, 0)
    scores = tiny.centroid(task.data, split, 2, scale=0.5).scores
    y = task.data.y.numpy()
    test, val = split.test.numpy(), split.val.numpy()
    expected = average_precision_score(y[test], scores[test])
    assert row['test']['auprc'] == pytest.approx(expected)
    by_hand = [
        f1_score(y[val], scores[val] >= t, average='macro')
        for t in scores[val]
    ]
    assert row['val']['macro_f1'] == pytest.approx(max(by_hand))
    flagged = scores[test] >= row['threshold']
    expected = f1_score(y[test], flagged, average='macro')
    assert row['test']['macro_f1'] == pytest.approx(expected)
    assert row['split']['train'] == {'nodes': 40, 'anomalies': 12}
    assert row['unit']['params'] == {'scale': 0.5}
    assert row['info'] == {'note': 'seen'}
    assert (row['num_parameters'], row['best_epoch']) == (6, 2)
    assert row['device'] == 'cpu'
    assert {'torch', 'torch_geometric', 'sklearn'} < set(row['versions'])
    for key in ('git', 'threads', 'seconds', 'memory_peak_mib'):
        assert key in row


def test_models_cannot_reach_test_labels(tiny):
    seen = {}

    @register_model('spy')
    def spy(data, split, seed):
        seen['data'] = data
        data.x.zero_()  # a model that spoils its copy spoils nothing else
        return tiny.Prediction(np.linspace(0, 1, 120))

    task = tiny.tiny()
    x, y = task.data.x.clone(), task.data.y.clone()
    evaluate(Unit('tiny', 'spy', 'et-40pct', 0, 0, {}), task)
    split = get_protocol('et-40pct').split(task, 0)
    known = split.train | split.val
    assert (seen['data'].y[~known] == -1).all()
    assert torch.equal(seen['data'].y[known], y[known])
    assert set(seen['data'].keys()) == {'x', 'edge_index', 'y', 'num_nodes'}
    assert torch.equal(task.data.x, x)
    assert torch.equal(task.data.y, y)


def test_poisoned_test_labels_change_test_metrics_only(tiny):
    clean = tiny.tiny()
    train, val, test = (m[:, :1] for m in clean.splits['official'])
    poisoned = clean.data.clone()
    nodes = test[:, 0] & (poisoned.y >= 0)
    poisoned.y[nodes] = 1 - poisoned.y[nodes]
    tasks = [
        Task(data, {'official': (train, val, test)})
        for data in (clean.data, poisoned)
    ]
    for model in ('centroid', 'histgb', 'mlp'):
        unit = plan(
            BenchConfig(
                'x', (Group(('tiny',), 'official', (0,)),), {model: {}}
            )
        )[0]
        rows = [evaluate(unit, task) for task in tasks]
        for key in ('threshold', 'val', 'best_epoch'):
            assert rows[0][key] == rows[1][key]
        assert rows[0]['test'] != rows[1]['test']


@pytest.mark.parametrize(
    ('scores', 'message'),
    [
        (np.zeros(3), r'shape \[120\] \(got \[3\]\)'),
        (np.full(120, 1.5), r'probabilities in \[0, 1\]'),
        (np.full(120, np.nan), 'got 120 NaN or Inf'),
    ],
)
def test_bad_scores_are_refused(tiny, scores, message):
    register_model('bad')(lambda data, split, seed: tiny.Prediction(scores))
    with pytest.raises(ValueError, match=message):
        evaluate(Unit('tiny', 'bad', 'et-40pct', 0, 0, {}), tiny.tiny())


def test_failures_are_recorded_and_tried_again(tiny, tmp_path):
    folder = RunFolder(tmp_path)
    units = plan(config_of({'broken': {}, 'nan': {}, 'centroid': {}}))
    seen = []
    summary = run(folder, units, lambda unit, row: seen.append(row['status']))
    assert dataclasses.astuple(summary) == (6, 0, 2, 4, 0)
    assert seen == ['failed', 'failed', 'ok'] * 2
    row = folder.read(units[0])
    assert row['error'] == 'RuntimeError: out of luck'
    assert 'raise RuntimeError' in row['traceback']
    assert 'finite' in folder.read(units[1])['error']
    summary = run(folder, units)
    assert dataclasses.astuple(summary) == (6, 2, 0, 4, 0)


def test_a_dataset_that_does_not_load_fails_its_units_only(tiny, tmp_path):
    units = [
        Unit(name, 'centroid', 'et-40pct', split, 0, {})
        for name in ('tiny_absent', 'tiny_stored')
        for split in (0, 1)
    ]
    folder = RunFolder(tmp_path)
    assert dataclasses.astuple(run(folder, units)) == (4, 0, 2, 2, 0)
    assert 'tiny_absent.npz' in folder.read(units[1])['error']


def test_a_protocol_that_does_not_fit_fails_with_its_reason(tiny, tmp_path):
    unit = Unit('tiny_stored', 'centroid', 'official', 0, 0, {})
    folder = RunFolder(tmp_path)
    run(folder, [unit])
    assert 'families present: none' in folder.read(unit)['error']


def test_stored_units_are_checked_again(tiny):
    units = plan(config_of({'centroid': {'scale': '2'}}))
    assert recheck(units) == units
    bad = dataclasses.replace(units[0], model='centroit')
    with pytest.raises(ConfigError, match="did you mean 'centroid'"):
        recheck([bad])
    old = dataclasses.replace(units[0], params={'scale': 2.0})
    with pytest.raises(ConfigError, match=r'new parameters .*\(sleep\)'):
        recheck([old])


def test_splits_are_stored_and_checked(tiny, tmp_path):
    folder = RunFolder(tmp_path)
    units = plan(config_of({'centroid': {}}))
    run(folder, units)
    task = tiny.tiny()
    split = get_protocol('et-40pct').split(task, 1)
    (tmp_path / 'units' / f'{units[1].key}.json').unlink()
    file = tmp_path / 'splits' / 'tiny--et-40pct--s1.json'
    rows = [
        bytes.fromhex(row) for row in json.loads(file.read_text())['masks']
    ]
    for row, part in zip(rows, ('train', 'val', 'test'), strict=True):
        bits = np.unpackbits(np.frombuffer(row, np.uint8))[:120]
        assert bits.astype(bool).tolist() == getattr(split, part).tolist()
    file.write_text(file.read_text().replace('"', ' "', 1))
    assert run(folder, units).failed == 1
    assert 'is not the one in' in folder.read(units[1])['error']


def test_an_unavailable_model_is_skipped_with_its_reason(tiny, tmp_path):
    @register_model('unavailable')
    def unavailable(data, split, seed):
        raise UnavailableError("needs 'elsewhere'")

    folder = RunFolder(tmp_path)
    units = plan(config_of({'unavailable': {}}))
    summary = run(folder, units)
    assert dataclasses.astuple(summary) == (2, 0, 0, 0, 2)
    row = folder.read(units[0])
    assert (row['status'], row['error']) == ('skipped', "needs 'elsewhere'")
