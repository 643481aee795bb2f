import contextlib
import io
import json
import sys

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss

from tests.cli.fraud.conftest import flat
from torch_energy_graph.bench.fraud import load_run
from torch_energy_graph.cli import main
from torch_energy_graph.data.from_csv import from_folder

pd = pytest.importorskip('pandas')


@pytest.fixture(scope='module')
def text(run):
    file = io.StringIO()
    with contextlib.redirect_stdout(file):
        assert main(['evaluate', str(run)]) == 0
    return file.getvalue()


@pytest.fixture(scope='module')
def evaluated(text, run):
    return json.loads((run / 'evaluation.json').read_text())


def test_measures_are_those_of_held_out_nodes(evaluated, run, folder):
    loaded = load_run(run)
    table, held = from_folder(folder), loaded.test.numpy()
    y = table.y.numpy()[held]
    prob = loaded.detector.predict_proba(table)[held, 1]
    test = evaluated['test']
    assert test['auprc'] == pytest.approx(average_precision_score(y, prob))
    assert test['brier'] == pytest.approx(brier_score_loss(y, prob))
    found = loaded.detector.calibration_report(table, held)
    assert evaluated['uncalibrated'] == pytest.approx(found['before'])
    tested = evaluated['decisions']
    flagged = prob >= loaded.detector.threshold_
    assert tested['caught'] == int((flagged & (y == 1)).sum())
    assert tested['passed'] == int((~flagged & (y == 0)).sum())
    first = evaluated['thresholds'][0]
    assert first['target'] == 'chosen'
    assert first['alarms'] == tested['alarms'] == int(flagged.sum())
    # its steps end where the energies of the scores are
    energy = loaded.detector.score_table(table)['energy'].to_numpy()[held]
    step = evaluated['energy'][loaded.detector.num_steps]
    means = [energy[y == kind].mean() for kind in (0, 1)]
    np.testing.assert_allclose(step, means, rtol=1e-5)


def test_the_parts_of_the_split_and_the_baselines(evaluated):
    parts = evaluated['parts']
    nodes = [parts[part]['nodes'] for part in ('train', 'val', 'test')]
    assert nodes == [144, 48, 48]
    assert len(evaluated['baselines']) == 2
    for scores in evaluated['baselines'].values():
        assert 0.2 < scores['auroc'] <= 1


def test_text(text, evaluated, run):
    auprc = evaluated['test']['auprc']
    assert f'{"this detector":32}{auprc:>10.4f}' in text
    assert f'Report: {run / "report.html"}' in text


def test_json_and_no_report_without_matplotlib(
    evaluated, run, teg, monkeypatch
):
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    code, out, err = teg('evaluate', run, '--json')
    assert code == 0
    assert json.loads(out) == evaluated
    assert 'No report: pictures need matplotlib' in err


@pytest.mark.parametrize(
    ('args', 'code', 'message'),
    [
        (['{run}', '--ood', 'label'], 2, "'--ood' is for trained"),
        (['{tmp}'], 2, 'holds no finished training'),
        (['{tmp}', '--tables', '{tmp}'], 2, "'--tables' is for trainings"),
        (['{run}', '--tables', '{tmp}'], 2, 'are not those that'),
    ],
)
def test_errors(run, teg, tmp_path, args, code, message):
    args = [text.format(run=run, tmp=tmp_path) for text in args]
    found, _, err = teg('evaluate', *args)
    assert found == code
    assert message in flat(err)


def test_a_run_of_another_version(run, teg, tmp_path):
    stored = json.loads((run / 'train.json').read_text())
    (tmp_path / 'result.json').touch()
    for change in ({'sep': ',', 'more': 1}, {'layout': {'ID': 'id'}}):
        text = json.dumps({**stored, **change})
        (tmp_path / 'train.json').write_text(text)
        code, _, err = teg('evaluate', tmp_path)
        assert code == 2
        assert 'is not of this version' in err
        assert 'train again' in err


def test_nothing_held_out(folder, settings, teg, tmp_path):
    out = tmp_path / 'run'
    args = [*settings, '--test', '0', '--set', 'ensemble=1']
    assert teg('train', folder, '--out', out, *args)[0] == 0
    code, _, err = teg('evaluate', out)
    assert code == 2
    assert 'no node was held out' in err
