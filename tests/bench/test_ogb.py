import dataclasses
import json
import statistics

import pytest
import torch
import torch.nn.functional as F

from torch_geometric.nn import GCN

from tests.bench.ogb_files import (
    NUM_NODES,
    csv,
    read_csv,
    write_arxiv,
    write_proteins,
)
from torch_energy_graph.bench import ogb
from torch_energy_graph.bench.ogb_dataset import Evaluator
from torch_energy_graph.bench.ogb_train import Trainer

SMALL = [
    'params.hidden_channels=8',
    'params.num_layers=2',
    'params.dropout=0',
    'training.epochs=4',
    'training.lr=0.05',
    'seeds=[0, 1]',
]


def config_of(name, *overrides):
    return ogb.load_ogb_config(name, [*SMALL, *overrides])


def load(config, root):
    return ogb.load_task(config.dataset, config.data, root)


@pytest.fixture
def arxiv(tmp_path):
    """Function that gives a configuration and its task."""
    folder = write_arxiv(tmp_path)

    def build(*overrides):
        config = config_of('ogbn-arxiv', *overrides)
        return config, load(config, folder.parent)

    return build


def poisoned(task, *parts):
    """The task with labels of these parts moved to other classes."""
    y = task.y.clone()
    for part in parts:
        y[task.split[part]] = (y[task.split[part]] + 1) % task.out_channels
    return dataclasses.replace(task, y=y)


@pytest.mark.parametrize('model', ['difformer', 'gcn'])
@pytest.mark.parametrize('part_size', ['null', '30'])
def test_test_labels_change_nothing_but_the_test_metric(
    arxiv, model, part_size
):
    config, task = arxiv(
        f'model={model}',
        f'training.part_size={part_size}',
        'training.eval_every=1',
    )
    clean = Trainer(task, config).train(0)
    other = Trainer(poisoned(task, 'test'), config).train(0)
    for key in ('history', 'best_epoch', 'train', 'valid', 'num_params'):
        assert clean[key] == other[key]
    assert clean['test'] != other['test']


def test_validation_labels_do_not_train(arxiv):
    config, task = arxiv('training.eval_every=4', 'training.part_size=30')
    clean = Trainer(task, config).train(0)
    other = Trainer(poisoned(task, 'valid', 'test'), config).train(0)
    losses = [record['loss'] for record in clean['history']]
    assert losses == [record['loss'] for record in other['history']]
    assert clean['train'] == other['train']
    assert clean['valid'] != other['valid']


def test_training_labels_do_train(arxiv):
    config, task = arxiv('training.eval_every=4')
    clean = Trainer(task, config).train(0)
    other = Trainer(poisoned(task, 'train'), config).train(0)
    assert clean['history'][0]['loss'] != other['history'][0]['loss']


def test_it_learns_and_the_best_epoch_is_that_of_validation(arxiv):
    config, task = arxiv('training.epochs=40')
    result = Trainer(task, config).train(0)
    assert result['train'] > 0.8
    assert result['valid'] > 0.5  # four classes
    valid = {r['epoch']: r['valid'] for r in result['history'] if 'valid' in r}
    assert sorted(valid) == list(range(5, 41, 5))
    assert result['valid'] == max(valid.values())
    assert result['valid'] == valid[result['best_epoch']]
    assert result['last_epoch'] == 40


def test_patience_stops(arxiv):
    config, task = arxiv(
        'training.epochs=50',
        'training.lr=1e-9',
        'training.eval_every=1',
        'training.patience=3',
    )
    result = Trainer(task, config).train(0)
    assert (result['best_epoch'], result['last_epoch']) == (1, 4)


def test_a_seed_repeats_and_seeds_differ(arxiv):
    config, task = arxiv('training.part_size=30')
    trainer = Trainer(task, config)
    first, again, other = (trainer.train(seed) for seed in (0, 0, 1))
    assert first['history'] == again['history']
    assert first['history'] != other['history']


@pytest.mark.parametrize('model', ['difformer', 'gcn'])
def test_full_graph_predictions_are_those_of_the_plain_edge_list(arxiv, model):
    """The form of the edges saves memory and changes nothing."""
    config, task = arxiv(f'model={model}')
    trainer = Trainer(task, config)
    net = trainer.build().eval()
    plain = net
    if model == 'gcn':  # ours leaves normalising to the matrix
        plain = GCN(6, 8, 2, 40, norm='batch').eval()
        plain.load_state_dict(net.state_dict())
    expected = plain(task.graph.x, task.graph.edge_index)
    x, edges, _ = trainer.whole
    torch.testing.assert_close(net(x, edges), expected, rtol=1e-4, atol=1e-5)
    classes = expected.argmax(-1, keepdim=True)
    assert torch.equal(trainer.predict(net, 1), classes)


def test_metrics_are_those_of_the_evaluator_and_of_the_definition(arxiv):
    config, task = arxiv()
    trainer = Trainer(task, config)
    prediction = trainer.predict(trainer.build(), 1)
    for index in task.split.values():
        y, out = task.y[index], prediction[index]
        found = Evaluator('ogbn-arxiv').eval({'y_true': y, 'y_pred': out})
        assert task.score(y, out) == found['acc']
        assert task.score(y, out) == (y == out).double().mean().item()


def test_proteins_are_scored_by_task_and_trained_on_what_is_labelled(tmp_path):
    folder = write_proteins(tmp_path)
    label = read_csv(folder / 'raw' / 'node-label')
    text = label.astype(int).astype(str).tolist()
    text[0][3] = text[70][5] = 'nan'
    csv(folder / 'raw' / 'node-label', text)
    config = config_of(
        'ogbn-proteins',
        'training.epochs=1',
        'training.part_size=30',
    )
    task = load(config, tmp_path)
    assert int(task.y.isnan().sum()) == 2
    logits = torch.randn(NUM_NODES, 112)
    labelled = ~task.y.isnan()
    expected = F.binary_cross_entropy_with_logits(
        logits[labelled], task.y[labelled]
    )
    assert task.loss(logits, task.y) == expected

    seen = []
    trainer = Trainer(task, config)
    result = trainer.train(0, seen.append)
    prediction = trainer.predict(trainer.build(), 1)
    assert prediction.shape == (NUM_NODES, 112)
    index = task.split['test']
    found = Evaluator('ogbn-proteins').eval(
        {'y_true': task.y[index], 'y_pred': prediction[index]}
    )
    assert task.score(task.y[index], prediction[index]) == found['rocauc']
    assert seen == result['history']
    assert 0 < result['edge_share'] < 1
    assert result['num_params'] == sum(
        p.numel() for p in trainer.build().parameters()
    )


def test_a_diverging_seed_is_recorded_and_the_others_run(arxiv, tmp_path):
    config, task = arxiv()
    task.graph.x[0, 0] = float('inf')
    folder = ogb.OGBFolder(tmp_path / 'run')
    rows = []
    with folder.lock():
        summary = ogb.run(folder, config, task, 'teg', on_seed=rows.append)
    assert [row['status'] for row in rows] == ['failed', 'failed']
    assert set(summary['failed']) == {'0', '1'}
    assert 'diverged in epoch 1' in summary['failed']['0']
    assert summary['test_mean'] is None


def test_run_keeps_what_a_leaderboard_entry_must_tell(arxiv, tmp_path):
    config, task = arxiv()
    folder = ogb.OGBFolder(tmp_path / 'run')
    summary = ogb.run(folder, config, task, 'teg ogb run ogbn-arxiv')
    assert summary == json.loads((folder.path / 'summary.json').read_text())
    values = [folder.read_seed(seed)['test'] for seed in (0, 1)]
    assert summary['test_mean'] == pytest.approx(statistics.mean(values))
    assert summary['test_std'] == pytest.approx(statistics.stdev(values))
    assert summary['ogb_version'] == summary['versions']['ogb']
    assert summary['seeds'] == [0, 1]
    assert summary['time_s'] > 0
    assert summary['peak_mem_mb'] > 0
    assert summary['settings']['params']['hidden_channels'] == 8
    for key in ('hardware', 'num_params', 'command', 'external_data'):
        assert summary[key] is not None
    first = summary['per_seed'][0]
    for key in ('best_epoch', 'train', 'valid', 'test', 'seconds'):
        assert first[key] is not None


def test_finished_seeds_are_skipped_and_failed_ones_repeated(arxiv, tmp_path):
    config, task = arxiv()
    folder = ogb.OGBFolder(tmp_path / 'run')
    rows = []
    ogb.run(folder, config, task, 'teg', on_seed=rows.append)
    before = (folder.path / 'units' / 'seed-0.json').read_bytes()
    folder.write_seed({**rows[1], 'status': 'failed', 'error': 'killed'})
    ogb.run(folder, config, task, 'teg', on_seed=rows.append)
    assert [row['seed'] for row in rows] == [0, 1, 1]
    assert (folder.path / 'units' / 'seed-0.json').read_bytes() == before
    newer = dataclasses.replace(task, ogb_version='9.9.9')
    ogb.run(folder, config, newer, 'teg', on_seed=rows.append)
    assert [row['seed'] for row in rows[3:]] == [0, 1]


def test_other_settings_need_another_folder(arxiv, tmp_path):
    config, task = arxiv('seeds=[0]')
    folder = ogb.OGBFolder(tmp_path / 'run')
    ogb.run(folder, config, task, 'teg')
    changed, _ = arxiv('seeds=[0]', 'training.lr=0.5')
    with pytest.raises(ValueError, match=r'other settings.*--out'):
        ogb.run(folder, changed, task, 'teg')
    more, _ = arxiv('seeds=[0, 1]', 'method=Mine')
    assert ogb.run(folder, more, task, 'teg')['method'] == 'Mine'
