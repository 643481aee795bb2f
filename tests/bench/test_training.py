import json

import pytest
import torch

from torch_geometric.data import Data

from torch_energy_graph.bench import (
    ConfigError,
    Training,
    load_train_config,
    register_dataset,
)
from torch_energy_graph.bench.class_networks import get_class_network
from torch_energy_graph.train import load_tensors

CONFIG = """
task: classification
name: blobs
dataset: train_blobs
protocol: random-60-20-20
model: difformer
params: {epochs: 9, hidden_channels: 8, features: raw}
save_every: 4
"""


@register_dataset('train_blobs')
def train_blobs():
    gen = torch.Generator().manual_seed(0)
    y = torch.arange(3).repeat(20)
    x = torch.eye(3)[y] + torch.randn(60, 3, generator=gen)
    edge_index = torch.randint(60, (2, 100), generator=gen)
    return Data(x=x, edge_index=edge_index, y=y)


@pytest.fixture
def config(write_config):
    return load_train_config(write_config(CONFIG))


def comparable(row):
    return {key: row[key] for key in ('val', 'test', 'best_epoch', 'params')}


def test_defaults_are_filled_in(config):
    assert config.params['num_layers'] == 2
    assert config.params['epochs'] == 9
    assert (config.split, config.seed, config.save_every) == (0, 0, 4)


def test_an_interrupted_training_ends_as_a_whole_one(config, tmp_path):
    whole = Training(config, tmp_path / 'whole').run()
    for stop_at in (1, 4, 9):
        folder = tmp_path / str(stop_at)
        first = Training(config, folder)
        stopped = first.run(stop=lambda: first.trainer.epoch == stop_at)  # noqa: B023
        assert stopped is None
        assert not (folder / 'result.json').exists()
        second = Training(config, folder)
        assert second.resumed_at == stop_at
        row = second.run()
        assert comparable(row) == comparable(whole)
        for name in ('history.csv', 'model.safetensors'):
            found = (folder / name).read_bytes()
            assert found == (tmp_path / 'whole' / name).read_bytes()


def test_a_crash_loses_the_epochs_after_the_last_state(config, tmp_path):
    def crash(record):
        if record['epoch'] == 7:
            raise RuntimeError('power')

    with pytest.raises(RuntimeError, match='power'):
        Training(config, tmp_path).run(crash)
    again = Training(config, tmp_path)
    assert again.resumed_at == 4
    assert again.run()['last_epoch'] == 9


def test_a_finished_training_is_not_repeated(config, tmp_path):
    first = Training(config, tmp_path).run()
    before = (tmp_path / 'result.json').stat().st_mtime_ns
    again = Training(config, tmp_path).run(lambda record: 1 / 0)
    assert again == json.loads(json.dumps(first))
    assert (tmp_path / 'result.json').stat().st_mtime_ns == before


def test_the_weights_are_those_of_the_best_epoch(config, tmp_path):
    training = Training(config, tmp_path)
    training.run()
    weights = load_tensors(tmp_path / 'model.safetensors')
    network = get_class_network('difformer')
    params = network.params(**config.params)
    model = network.build(train_blobs(), 3, params).eval()
    model.load_state_dict(weights)
    data = training.trainer.graph
    out = model(data.x, data.edge_index)
    found = out.double().softmax(-1).detach().numpy()
    assert abs(found - training.trainer.finish().scores).max() < 1e-5


def test_test_labels_are_hidden(config, tmp_path):
    training = Training(config, tmp_path)
    assert (training.trainer.y[training.split.test] == -1).all()


def test_another_training_keeps_its_folder(config, tmp_path, write_config):
    Training(config, tmp_path).run()
    path = write_config(CONFIG)
    other = load_train_config(path, ['params.lr=0.1', 'seed=3'])
    with pytest.raises(ConfigError, match=r'\(params, seed\); choose another'):
        Training(other, tmp_path)


@pytest.mark.parametrize(
    ('override', 'message'),
    [
        ('model=gcn', "needs a model that tells classes .*got 'gcn'"),
        ('protocol=et-40pct', 'is not about classes'),
        ('protocol=publik', "did you mean 'public'"),
        ('model=diformer', "did you mean 'difformer"),
        ('params.epoch=3', "unknown key 'epoch'; did you mean 'epochs'"),
        ('task=images', "expected one of 'classification'"),
        ('dataset=absent', 'absent'),
        ('split=-1', "'split' >= 0"),
        ('name=a/b', "'name': expected letters"),
        ('speed=1', "unknown key 'speed'; did you mean 'seed'"),
    ],
)
def test_what_cannot_be_trained(write_config, override, message):
    with pytest.raises(ConfigError, match=message):
        load_train_config(write_config(CONFIG), [override])
