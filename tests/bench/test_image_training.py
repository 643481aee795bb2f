import json
from pathlib import Path

import pytest
import torch

from torch_energy_graph.bench import ConfigError
from torch_energy_graph.bench.image_training import (
    ImageTraining,
    load_image_config,
    load_image_model,
)
from torch_energy_graph.datasets.images import load_images
from torch_energy_graph.train.image import completion_error, draw_masks

CONFIG = """
task: images
name: tiny
dataset: digits
model: {patch_size: 2, hidden_channels: 8, heads: 2, num_steps: 2}
training: {epochs: 1, batch_size: 360, lr: 1e-2}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / 'tiny.yaml'
    file.write_text(CONFIG)
    return file


def test_a_training_leaves_its_files(path, tmp_path):
    folder = tmp_path / 'run'
    config = load_image_config(path)
    losses = []
    result = ImageTraining(config, folder).run(losses.append)
    assert len(losses) == result['last_step'] == 4
    model, stored = load_image_model(folder)
    assert stored == config
    test = load_images('digits').test
    error = completion_error(model, test, draw_masks(len(test), (4, 4)))
    assert error == pytest.approx(result['test_mse'])
    assert json.loads((folder / 'result.json').read_text()) == result
    history = (folder / 'history.csv').read_text().splitlines()
    assert history[0] == 'epoch,step,seconds,loss'
    assert history[1].startswith('1.0,4,')
    # again: nothing is trained, the result is the stored one
    assert ImageTraining(config, folder).run(losses.append) == result
    assert len(losses) == 4


def test_a_stopped_training_goes_on(path, tmp_path):
    config = load_image_config(path)
    whole = ImageTraining(config, tmp_path / 'whole').run()
    folder = tmp_path / 'stopped'
    assert ImageTraining(config, folder).run(stop=lambda: True) is None
    assert not (folder / 'result.json').exists()
    model, _ = load_image_model(folder)  # as far as it has come
    training = ImageTraining(config, folder)
    assert training.resumed_at == 1
    stopped = training.trainer.model.state_dict()
    for key, value in model.state_dict().items():
        assert torch.equal(stopped[key], value)
    result = training.run()
    assert result['test_mse'] == whole['test_mse']


def test_states_are_saved_on_the_way(path, tmp_path):
    config = load_image_config(path, ['save_seconds=1e-9'])
    training = ImageTraining(config, tmp_path / 'run')
    saved = []
    save = training.save
    training.save = lambda: saved.append(training.trainer.step) or save()
    training.run()
    assert saved == [1, 2, 3, 4, 4]


def test_other_settings_need_another_folder(path, tmp_path):
    config = load_image_config(path)
    ImageTraining(config, tmp_path / 'run').run(stop=lambda: True)
    other = load_image_config(path, ['training.lr=0.1', 'seed=3'])
    with pytest.raises(ConfigError, match=r'\(seed, training\); choose'):
        ImageTraining(other, tmp_path / 'run')


@pytest.mark.parametrize(
    ('override', 'message'),
    [
        ('dataset=svhn', "'dataset': expected one of digits"),
        ('model.patches=3', "unknown key 'patches'; did you mean 'patch_"),
        ('training.lr=-1', "tiny.yaml: .*'lr' > 0"),
        ('name=a/b', "'name': expected letters"),
        ('save_seconds=0', "'save_seconds'"),
        ('model.step_size=fast', 'model.step_size: expected'),
    ],
)
def test_wrong_configurations(path, override, message):
    with pytest.raises(ConfigError, match=message):
        load_image_config(path, [override])


def test_a_model_that_does_not_fit(path, tmp_path):
    config = load_image_config(path, ['model.patch_size=3'])
    with pytest.raises(ConfigError, match="'model': patches of 3 x 3"):
        ImageTraining(config, tmp_path / 'run')
    config = load_image_config(path, ['model.connectivity=8'])
    assert config.build().connectivity == 8


def test_folders_without_a_model(tmp_path):
    with pytest.raises(ConfigError, match='not the folder of an image model'):
        load_image_model(tmp_path)
    (tmp_path / 'train.json').write_text('{')
    with pytest.raises(ConfigError, match=r"cannot read '.*train\.json'"):
        load_image_model(tmp_path)


def test_the_committed_configuration_fits():
    root = Path(__file__).parents[2] / 'benchmarks' / 'configs'
    config = load_image_config(root / 'image_mnist.yaml')
    assert config.build().image_size == (28, 28)
