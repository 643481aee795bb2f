import json

import pytest

from tests.cli.calls import run
from torch_energy_graph.cli import main

CONFIG = """
task: classification
name: digits
dataset: digits_knn
protocol: per-class-10
model: gcn_cls
params: {epochs: 4, hidden_channels: 8, features: raw, patience: null}
"""


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp('ce')
    (path / 'digits.yaml').write_text(CONFIG)
    args = ['train', path / 'digits.yaml', '--out', path / 'run']
    args += ['--loss', 'ngebm', '--beta', '0.2', '--variance', '0.1']
    assert main([str(arg) for arg in args]) == 0
    return path / 'run'


def test_the_loss_is_in_the_files(folder):
    stored = json.loads((folder / 'train.json').read_text())
    assert stored['loss'] == {'name': 'ngebm', 'beta': 0.2, 'variance': 0.1}


def test_evaluate(capsys, folder):
    code, out, _ = run(capsys, 'evaluate', folder, '--ood', 'feature')
    assert code == 0
    assert out.startswith('gcn_cls on digits_knn, test nodes:\n')
    for word in ('ece', 'temperature', 'confident', 'fpr95', 'propagated'):
        assert word in out
    code, text, _ = run(capsys, 'evaluate', folder, '--json')
    found = json.loads(text)
    result = json.loads((folder / 'result.json').read_text())
    assert found['test']['accuracy'] == result['test']['accuracy']
    assert found['ood'] == {}


def test_classes_left_out(capsys, tmp_path):
    (tmp_path / 'digits.yaml').write_text(CONFIG)
    args = ['train', tmp_path / 'digits.yaml', '--out', tmp_path / 'run']
    assert run(capsys, *args, '--set', 'leave_out=[8, 9]')[0] == 0
    args = ['evaluate', tmp_path / 'run', '--ood', 'label', '--json']
    code, text, _ = run(capsys, *args)
    assert code == 0
    found = json.loads(text)['ood']['label']
    assert set(found) == {'max_prob', 'energy', 'propagated'}
    assert 0 < found['energy']['auroc'] < 1


@pytest.mark.parametrize(
    ('args', 'message'),
    [
        (['--ood', 'label'], 'leave_out'),
        (['--ood', 'colour'], 'feature'),
    ],
)
def test_wrong_usage_is_2(capsys, folder, args, message):
    code, _, err = run(capsys, 'evaluate', folder, *args)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    'args', [['--beta', '0.5'], ['--loss', 'ngebm'], ['--loss', 'jem']]
)
def test_a_loss_needs_its_beta_and_beta_its_loss(capsys, tmp_path, args):
    (tmp_path / 'digits.yaml').write_text(CONFIG)
    code, _, err = run(capsys, 'train', tmp_path / 'digits.yaml', *args)
    assert code == 2
    assert 'beta' in err or 'ngebm' in err
