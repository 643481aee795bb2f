"""The examples run, in short, and say what they promise."""

import re
import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / 'examples'


@pytest.fixture
def run(capsys):
    def main(name, *args, **kwargs):
        torch.manual_seed(0)
        runpy.run_path(str(EXAMPLES / f'{name}.py'))['main'](*args, **kwargs)
        return capsys.readouterr().out

    return main


def number(text, before):
    return float(re.search(rf'{re.escape(before)} (\d\.\d+)', text)[1])


def test_every_example_is_short_and_says_how_to_call_it():
    for path in EXAMPLES.glob('*.py'):
        lines = path.read_text(encoding='utf-8').splitlines()
        assert len(lines) <= 60, path.name
        assert any(path.stem in line for line in lines[:8]), path.name


def test_hetero_data(run):
    pytest.importorskip('pandas')
    out = run('hetero_data', epochs=2)
    assert number(out, 'test AUPRC') > 0.3  # 0.125 by chance
    assert 'why account:' in out
    assert 'device:' in out


def test_mil_pooling(run):
    out = run('mil_pooling', num_bags=200, epochs=20)
    assert number(out, 'AUC') > 0.7
    found, total = re.search(r'in (\d+) of (\d+)', out).groups()
    assert int(found) > int(total) / 2  # 0.1 by chance


def test_image_completion(run, tmp_path):
    pytest.importorskip('matplotlib')
    picture = tmp_path / 'digits.png'
    out = run('image_completion', picture, epochs=2)
    assert number(out, 'hidden patches') < 0.15
    energy = re.search(r'energy \[(.*)\]', out)[1].split(', ')
    assert float(energy[-1]) < float(energy[0])
    assert picture.read_bytes().startswith(b'\x89PNG')


@pytest.fixture
def cora(data_root, require_file, monkeypatch):
    require_file(data_root / 'cora.npz')
    monkeypatch.setenv('TEG_DATA', str(data_root))


def test_ood_scores(run, cora):
    out = run('ood_scores', epochs=20)
    assert number(out, 'known classes') > 0.85
    plain = number(out, 'energy     tells left-out classes with AUROC')
    spread = number(out, 'propagated tells left-out classes with AUROC')
    assert 0.6 < plain < spread


def test_cora_difformer(run, cora):
    assert number(run('cora_difformer', epochs=20), 'accuracy') > 0.4
