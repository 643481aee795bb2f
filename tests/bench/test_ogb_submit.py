import json
import statistics

import pytest

from torch_energy_graph.bench.ogb_config import load_ogb_config
from torch_energy_graph.bench.ogb_store import OGBFolder
from torch_energy_graph.bench.ogb_submit import problems, submit, summarize

TEST = [0.70, 0.72, 0.71, 0.73, 0.69, 0.72, 0.74, 0.70, 0.71, 0.72]


@pytest.fixture
def folder(tmp_path):
    """Ten finished seeds of ogbn-arxiv."""
    config = load_ogb_config('ogbn-arxiv', ['method=DIFFormer-s'])
    folder = OGBFolder(tmp_path / 'run')
    folder.start(config, 'teg ogb run ogbn-arxiv')
    for seed, test in enumerate(TEST):
        folder.write_seed(
            {
                'status': 'ok',
                'seed': seed,
                'config_hash': config.hash,
                'metric': 'acc',
                'ogb_version': '1.3.6',
                'versions': {'ogb': '1.3.6', 'torch': '2.13.0'},
                'num_params': 123,
                'num_edges': 7,
                'hardware': 'A card (80 GiB)',
                'git': 'abc',
                'best_epoch': 5,
                'last_epoch': 9,
                'train': test + 0.1,
                'valid': test + 0.01,
                'test': test,
                'seconds': 2.0,
                'peak_mem_mb': 100.0 + seed,
                'peak_gpu_mem_mb': None,
            }
        )
    return folder


def change(folder, seed, **values):
    folder.write_seed({**folder.read_seed(seed), **values})


def test_the_text_and_the_json_are_ready_for_the_form(folder):
    answers = {'contact': 'A B', 'code': 'https://code', 'paper': ''}
    summary, text = submit(folder, answers)
    mean, std = statistics.mean(TEST), statistics.stdev(TEST)
    lines = text.splitlines()
    for line in (
        'Dataset: ogbn-arxiv',
        'Method: DIFFormer-s',
        'External data: no',
        'OGB version: 1.3.6',
        f'Test acc: {mean:.4f} +- {std:.4f}',
        f'Validation acc: {mean + 0.01:.4f} +- {std:.4f}',
        'Parameters: 123',
        'Hardware: A card (80 GiB)',
        'Contact (name and mail address): A B',
        'Paper (link):',
        'Command: teg ogb run ogbn-arxiv',
        'Commit: abc',
    ):
        assert line in lines
    assert sum(line.split()[:2] == ['3', '5'] for line in lines) == 1
    assert (folder.path / 'submission.txt').read_text() == text
    stored = json.loads((folder.path / 'submission.json').read_text())
    assert stored == summary
    assert stored['form'] == answers
    assert stored['test_std'] == pytest.approx(std)
    assert stored['peak_mem_mb'] == 109.0
    assert stored['time_s'] == 20.0
    assert [row['seed'] for row in stored['per_seed']] == list(range(10))


@pytest.mark.parametrize(
    ('values', 'message'),
    [
        ({'status': 'failed', 'error': 'x'}, r'seeds \[4\] have no result'),
        ({'config_hash': 'other'}, r'seeds \[4\] were run with other set'),
        ({'ogb_version': '1.3.5'}, "versions of OGB .'1.3.5', '1.3.6'"),
        ({'num_params': 124}, r'numbers of parameters \[123, 124\]'),
        ({'num_edges': 8}, r'numbers of edges \[7, 8\]'),
        ({'ogb_version': '1.1.0'}, '1.1.0 is older than 1.1.1'),
    ],
)
def test_an_entry_against_the_rules_is_refused(folder, values, message):
    assert problems(folder) == []
    change(folder, 4, **values)
    with pytest.raises(ValueError, match=message):
        submit(folder, {})
    assert not (folder.path / 'submission.txt').exists()


def test_seeds_that_are_not_those_of_the_leaderboard(folder):
    config = load_ogb_config('ogbn-arxiv', ['seeds=[0, 1]'])
    folder.start(config, 'teg')
    assert problems(folder) == ['it was run with the seeds [0, 1], not 0 to 9']


def test_a_run_that_moved_names_all_its_machines(folder):
    change(folder, 4, hardware='A CPU', git='def')
    summary, text = submit(folder, {})
    assert summary['hardware'] == 'A CPU; A card (80 GiB)'
    assert 'Commit: abc; def\n' in text


def test_one_seed_has_no_deviation(folder):
    folder.start(load_ogb_config('ogbn-arxiv', ['seeds=[3]']), 'teg')
    summary = summarize(folder)
    assert summary['test_mean'] == TEST[3]
    assert summary['test_std'] is None


def test_another_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match=r'no run\.json.*teg ogb run'):
        submit(OGBFolder(tmp_path / 'absent'), {})
    assert not (tmp_path / 'absent').exists()
    (tmp_path / 'run.json').write_text('{"units": []}')
    with pytest.raises(ValueError, match='damaged or not of an entry'):
        submit(OGBFolder(tmp_path), {})
