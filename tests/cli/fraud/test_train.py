import errno
import inspect
import json
import os
import signal
from dataclasses import fields

import pytest

from tests.cli.fraud.conftest import flat
from torch_energy_graph.bench.fraud import (
    FraudTraining,
    fraud_config,
    load_run,
)
from torch_energy_graph.cli.fraud.settings import Method, detector_of
from torch_energy_graph.data.tables import TableLayout
from torch_energy_graph.detect import (
    AlertBudget,
    CostMatrix,
    EnergyFraudDetector,
    FBeta,
    TopK,
)
from torch_energy_graph.detect.members import Checkpoint

pd = pytest.importorskip('pandas')


def test_a_fifth_is_held_out_and_all_is_saved(run, folder):
    loaded = load_run(run)
    table, test = loaded.table, loaded.test
    assert int(test.sum()) == 48
    assert int(table.y[test].sum()) == 10  # of 48 anomalies, rounded
    stored = json.loads((run / 'held_out.json').read_text())['ids']
    assert {*stored} == {table.node_id[i] for i in test.nonzero().view(-1)}
    result = json.loads((run / 'result.json').read_text())
    assert result['threshold'] == loaded.detector.threshold_
    # 192 others, a quarter of them validates
    found = result['validation']
    assert found['caught'] + found['missed'] in (9, 10)
    assert loaded.card['num_nodes'] == 240
    assert result['command'].startswith(f'teg train {folder} --out {run}')


def test_again_gives_the_same_and_other_settings_are_refused(
    run, folder, settings, teg
):
    before = (run / 'model' / 'state.json').read_text()
    code, out, err = teg(
        'train', '--out', run, folder, *settings, '--json'
    )  # options may stand first
    assert code == 0
    assert 'Going on after network 2 of 2' in err
    assert json.loads(out) == json.loads((run / 'result.json').read_text())
    after = json.loads((run / 'model' / 'state.json').read_text())
    assert after['sha256'] == json.loads(before)['sha256']
    code, _, err = teg('train', folder, '--out', run, *settings, '--seed', 1)
    assert code == 2
    assert '(params); choose another folder with --out' in err


def test_an_interrupt_is_gone_on_with(
    run, folder, settings, teg, tmp_path, monkeypatch
):
    out = tmp_path / 'run'
    add = Checkpoint.add

    def add_and_interrupt(self, model, result):
        add(self, model, result)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, 'add', add_and_interrupt)
        code, _, err = teg('train', folder, '--out', out, *settings)
    assert code == 130
    assert f'teg train {folder} --out {out} --set epochs=2' in err
    assert not (out / 'result.json').exists()
    code, _, err = teg('train', folder, '--out', out, *settings)
    assert code == 0
    assert 'Going on after network 1 of 2' in err
    weights = [
        json.loads((path / 'model' / 'state.json').read_text())['sha256']
        for path in (out, run)
    ]
    assert weights[0] == weights[1]


def test_the_order_of_rows_changes_nothing_held_out(folder, tmp_path):
    other = tmp_path / 'my'
    other.mkdir()
    nodes = pd.read_csv(folder / 'nodes.csv').sample(frac=1, random_state=0)
    nodes.to_csv(other / 'nodes.csv', index=False)
    (other / 'edges.csv').write_text((folder / 'edges.csv').read_text())
    ids = []
    for tables in (folder, other):
        config = fraud_config(
            tables, TableLayout(), ',', 0.2, EnergyFraudDetector()
        )
        training = FraudTraining(config, tmp_path / 'run')
        nodes = training.test.nonzero().view(-1).tolist()
        ids.append({training.table.node_id[i] for i in nodes})
    assert ids[0] == ids[1]


def test_settings_of_layout_and_detector_never_mean_both():
    params = {*inspect.signature(EnergyFraudDetector).parameters}
    assert not params & {field.name for field in fields(TableLayout)}


@pytest.mark.parametrize(
    ('text', 'target'),
    [
        ('macro_f1', 'macro_f1'),
        ('0.25', 0.25),
        ('fbeta=2', FBeta(2.0)),
        ('top=100', TopK(100)),
        ('cost=10', CostMatrix(((0, 1), (10, 0)))),
        ('budget=0.01', AlertBudget(0.01)),
    ],
)
def test_thresholds(text, target):
    chosen = ['label=fraud', 'epochs=3', 'step_size=auto', 'relations=no']
    detector = detector_of(chosen, text, Method.NONE, 7)
    assert detector.threshold == target
    assert (detector.epochs, detector.step_size) == (3, 'auto')
    assert detector.relations is False
    assert detector.calibration is None
    assert detector.random_state == 7


@pytest.mark.parametrize(
    ('args', 'message'),
    [
        (['--set', 'epoch=3'], "did you mean 'epochs'?"),
        (['--set', 'lable=fraud'], "did you mean 'label'?"),
        (['--set', 'epochs=many'], "expected int (got 'many')"),
        (['--set', 'threshold=0.3'], 'use --threshold'),
        (['--threshold', 'alarms=3'], 'expected macro_f1, fbeta='),
        (['--threshold', 'top=many'], "expected int (got 'many')"),
        (['--test', '1'], 'expected a share in [0, 1)'),
        (['--out', '{folder}'], 'holds tables; choose another folder'),
    ],
)
def test_wrong_usage_is_2(teg, folder, tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    args = [text.format(folder=folder) for text in args]
    code, _, err = teg('train', folder, *args)
    assert code == 2
    assert flat(err).count(message) == 1
    assert not (tmp_path / 'runs').exists()


def test_errors_are_one_line(teg, folder, settings, tmp_path, monkeypatch):
    out = tmp_path / 'out'
    empty = tmp_path / 'empty'
    empty.mkdir()
    code, _, err = teg('train', empty, '--out', out)
    assert (code, err.count('\n')) == (1, 1)
    assert "no 'nodes.csv' in" in err
    code, _, err = teg('train', folder, '--out', out, '--test', 0.01)
    assert (code, err.count('\n')) == (1, 1)
    assert 'at least 100 labelled nodes of each class to hold out 1%' in err

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr('os.fsync', full)
    code, _, err = teg('train', folder, '--out', out, *settings)
    assert code == 1
    last = err.splitlines()[-1]
    assert last.startswith('teg: error:')
    assert f"No space left on device: '{out / 'train.json'}'" in last


def test_a_file_is_a_configuration_as_before(teg, tmp_path):
    path = tmp_path / 'nodes.yaml'
    path.write_text('task: classification\nname: x\n')
    code, _, err = teg('train', path)
    assert code == 2
    assert "expected the key 'dataset'" in err
