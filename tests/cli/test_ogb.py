import json
import subprocess
import sys

import pytest

from tests.bench.ogb_files import write_arxiv, write_products, write_proteins
from torch_energy_graph.bench.ogb_train import Trainer
from torch_energy_graph.cli import main

WRITE = {
    'ogbn-arxiv': write_arxiv,
    'ogbn-proteins': write_proteins,
    'ogbn-products': write_products,
}
TINY = ['params.hidden_channels=4', 'params.num_layers=1', 'training.epochs=2']


@pytest.fixture
def teg(tmp_path, capsys, monkeypatch):
    """Run `teg ogb run` on tiny files; returns code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def refuse(*_):
        pytest.fail('standard input was read')

    monkeypatch.setattr('builtins.input', refuse)

    def run(*args):
        code = main(['ogb', *map(str, args)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def sets(*overrides):
    return [part for text in (*TINY, *overrides) for part in ('--set', text)]


@pytest.mark.parametrize(
    ('name', 'model', 'part_size'),
    [
        ('ogbn-arxiv', 'gcn', 'null'),
        ('ogbn-proteins', 'difformer', '30'),
        ('ogbn-products', 'difformer', '30'),
    ],
)
def test_from_files_to_a_submission(teg, tmp_path, name, model, part_size):
    WRITE[name](tmp_path / 'data')
    override = sets(f'model={model}', f'training.part_size={part_size}')
    run = ['run', name, '--root', 'data', '--out', 'entry', *override]
    code, out, _ = teg(*run)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f'Dataset: {name}'
    for word in ('Versions: ogb ', 'Device: ', 'Settings: ', 'Parameters: '):
        assert any(line.startswith(word) for line in lines)
    assert sum(line.startswith('Seed ') for line in lines) == 10
    summary = json.loads((tmp_path / 'entry' / 'summary.json').read_text())
    mean, std = summary['test_mean'], summary['test_std']
    assert lines[-1] == f'Test: {mean:.4f} +- {std:.4f}'

    code, out, err = teg(
        'submit', 'entry', '--code', 'https://code', '--contact', 'A B'
    )
    assert code == 0
    metric = 'rocauc' if name == 'ogbn-proteins' else 'acc'
    assert f'Test {metric}: {mean:.4f} +- {std:.4f}\n' in out
    assert f'Parameters: {summary["num_params"]}\n' in out
    assert f'--set training.part_size={part_size} --device cpu' in out
    assert 'Left blank: --paper.' in err
    assert (tmp_path / 'entry' / 'submission.txt').read_text() == out
    code, out, _ = teg('submit', 'entry', '--json')
    assert code == 0
    assert json.loads(out)['seeds'] == list(range(10))


def test_a_file_and_json(teg, tmp_path):
    write_arxiv(tmp_path / 'data' / 'ogb')
    (tmp_path / 'mine.yaml').write_text(
        'dataset: ogbn-arxiv\nmodel: gcn\nmethod: Mine\nseeds: [5]\n'
        'params: {hidden_channels: 4}\ntraining: {epochs: 1}\n'
    )
    code, out, err = teg('run', 'mine.yaml', '--root', 'data/ogb', '--json')
    assert code == 0
    summary = json.loads(out)
    assert (summary['method'], summary['seeds']) == ('Mine', [5])
    assert summary['command'] == 'teg ogb run mine.yaml --device cpu'
    assert 'Seed 5: best epoch 1' in err
    assert (tmp_path / 'runs' / 'ogbn-arxiv-gcn' / 'summary.json').exists()
    code, _, err = teg('submit', 'runs/ogbn-arxiv-gcn')
    assert code == 1
    assert err.count('\n') == 1
    assert 'seeds [5], not 0 to 9' in err


def test_an_interrupt_is_130_and_the_same_command_goes_on(
    teg, tmp_path, monkeypatch
):
    write_arxiv(tmp_path / 'data')
    run = ['run', 'ogbn-arxiv', '--root', 'data', '--out', 'entry']
    run += sets('model=gcn', 'seeds=[0, 1, 2]')
    train = Trainer.train

    def interrupted(self, seed, progress=None):
        if seed == 1:
            raise KeyboardInterrupt
        return train(self, seed, progress)

    monkeypatch.setattr(Trainer, 'train', interrupted)
    code, out, err = teg(*run)
    assert code == 130
    assert 'Go on with the same command.' in err
    assert 'Seed 0: ' in out
    kept = (tmp_path / 'entry' / 'units' / 'seed-0.json').read_bytes()
    monkeypatch.setattr(Trainer, 'train', train)
    code, out, _ = teg(*run)
    assert code == 0
    assert [line[:6] for line in out.splitlines() if 'best' in line] == [
        'Seed 1',
        'Seed 2',
    ]
    assert (tmp_path / 'entry' / 'units' / 'seed-0.json').read_bytes() == kept


def test_a_failed_seed_is_1(teg, tmp_path, monkeypatch):
    write_arxiv(tmp_path / 'data')

    def fail(self, seed, progress=None):
        raise FloatingPointError('training diverged')

    monkeypatch.setattr(Trainer, 'train', fail)
    code, out, _ = teg('run', 'ogbn-arxiv', '--root', 'data', *sets())
    assert code == 1
    assert 'Seed 0: failed: FloatingPointError: training diverged' in out
    assert 'Test: no finished seed' in out


@pytest.mark.parametrize(
    ('args', 'code', 'message'),
    [
        (['run', 'ogbn-arxiv', '--root', 'data'], 1, 'fetch it with --downl'),
        (['run', 'ogbn-mag'], 2, 'neither a file nor a dataset'),
        (['run', 'ogbn-arxiv', '--set', 'training.lrr=1'], 2, "mean 'lr'?"),
        (['run', 'ogbn-arxiv', '--device', 'abc'], 1, 'such as --device cpu'),
        (['run', 'ogbn-arxiv', '--eval-device', 'a'], 1, "the device 'a'"),
        (['submit', 'absent'], 2, 'not the folder of an entry'),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(
    teg, tmp_path, args, code, message
):
    found, out, err = teg(*args)
    assert found == code
    assert out == ''
    assert err.count('\n') == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('args', [['run', '--help'], ['submit', '--help']])
def test_help_does_not_import_torch(args):
    code = (
        'import sys\n'
        'from torch_energy_graph.cli import main\n'
        f'code = main({["ogb", *args]!r})\n'
        'sys.exit(code or bool({"torch", "ogb", "tqdm"} & set(sys.modules)))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True)
    assert done.returncode == 0


def test_a_folder_with_other_settings_is_refused(teg, tmp_path):
    write_arxiv(tmp_path / 'data')
    run = ['run', 'ogbn-arxiv', '--root', 'data', '--out', 'entry']
    run += sets('model=gcn', 'seeds=[0]')
    assert teg(*run)[0] == 0
    code, _, err = teg(*run, '--set', 'training.lr=0.5')
    assert code == 2
    assert 'choose another folder with --out' in err
