import pytest

from torch_energy_graph.bench import ConfigError, get_model, load_task
from torch_energy_graph.bench.registry import (
    model_parameters,
    require_dataset,
)


def test_parameters_follow_the_signature(tiny):
    assert model_parameters('centroid', {'scale': '1e-3'}, 'm') == {
        'scale': 1e-3,
        'sleep': 0.0,
    }
    with pytest.raises(ConfigError, match=r"^m: unknown key 'scal'; did you"):
        model_parameters('centroid', {'scal': 1}, 'm')
    with pytest.raises(ConfigError, match=r'^m\.scale: expected float'):
        model_parameters('centroid', {'scale': 'big'}, 'm')


def test_the_baselines_are_registered():
    for name in ('logreg', 'mlp', 'histgb', 'forest', 'xgb'):
        params = model_parameters(name, {}, name)
        assert params['hops'] == 0
        aggregated = model_parameters(f'{name}_agg', {}, name)
        assert aggregated == {**params, 'hops': 2}
    encoded = model_parameters('gcn_encoded', {}, 'm')
    plain = {'hops': 0, 'encoding': 'standard'}
    assert {**encoded, **plain} == model_parameters('gcn', {}, 'm')
    assert model_parameters('gcn', {'dropout': '0'}, 'gcn')['dropout'] == 0
    assert model_parameters('et', {}, 'et')['num_steps'] >= 1


def test_unknown_names_name_the_nearest(tiny):
    with pytest.raises(ConfigError, match="did you mean 'histgb'"):
        get_model('hisgb')
    with pytest.raises(ConfigError, match="did you mean 'tiny'"):
        require_dataset('tinny')
    with pytest.raises(ConfigError, match="did you mean 'digits_outlier'"):
        require_dataset('digit_outlier')


def test_tasks(tiny):
    assert set(load_task('tiny').splits) == {'official'}
    assert load_task('tiny_stored').splits == {}
    digits = load_task('digits_outlier')
    assert digits.splits == {}
    assert set(digits.data.y.tolist()) == {0, 1}


def test_a_stored_dataset_brings_its_masks(data_root):
    task = load_task('tolokers')
    assert task.splits['official'][0].shape == (11758, 10)
