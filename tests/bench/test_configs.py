import math
import re
from pathlib import Path

import pytest

from torch_energy_graph.bench import load_config, plan
from torch_energy_graph.bench.registry import model_parameters

ROOT = Path(__file__).parents[2] / 'benchmarks'
ANOMALIES = {
    *('logreg', 'logreg_agg', 'histgb', 'histgb_agg'),
    *('mlp', 'mlp_agg', 'gcn', 'et'),
}
CLASSES = {
    *('mlp_cls', 'gcn_cls', 'gcn_tuned', 'gcn_only', 'mean_gcn'),
    *('difformer', 'difformer_global'),
}
LABELS = {'xgb_agg', 'xgb_labels', 'et', 'et_labels'}  # pairs of rows
NEEDED = {
    'demo': ANOMALIES,
    'fraud': ANOMALIES,
    'fraud_smoke': ANOMALIES,
    'fraud_labels': LABELS,
    'difformer_*': CLASSES,
}
PATHS = [
    pytest.param(path, models, id=path.stem)
    for pattern, models in NEEDED.items()
    for path in sorted((ROOT / 'configs').glob(f'{pattern}.yaml'))
]


@pytest.mark.parametrize(('path', 'models'), PATHS)
def test_committed_configurations_fit_the_models(path, models):
    config = load_config(path)
    assert models <= set(config.models)
    for name, values in config.models.items():
        assert values, f'{name}: settings are recorded in the file'
        model_parameters(name, values, name)


def test_the_demo_needs_no_file():
    units = plan(load_config(ROOT / 'configs' / 'demo.yaml'))
    assert {unit.dataset for unit in units} == {'digits_outlier'}


def test_the_readme_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / 'README.md').read_text()
    (code,) = re.findall(r'```python\n(.*?)```', text, flags=re.DOTALL)
    exec(compile(code, 'benchmarks/README.md', 'exec'), {})
    assert '| one_feature |' in capsys.readouterr().out


@pytest.mark.parametrize('name', ['citation', 'pubmed', 'more', 'sets'])
def test_class_benchmarks_tune_every_model_alike(name):
    config = load_config(ROOT / 'configs' / f'difformer_{name}.yaml')
    assert set(config.tuning.grids) == set(config.models)
    for model, grid in config.tuning.grids.items():
        settings = math.prod(len(values) for values in grid.values())
        assert settings >= config.tuning.budget - 1, model
        for key, values in grid.items():
            for value in values:
                model_parameters(model, {key: value}, model)


def test_the_fraud_benchmark_tunes_every_model_alike():
    config = load_config(ROOT / 'configs' / 'fraud.yaml')
    assert set(config.tuning.grids) == set(config.models)
    for model, grid in config.tuning.grids.items():
        for key, values in grid.items():
            for value in values:
                model_parameters(model, {key: value}, model)
    tables = {(d, g.protocol) for g in config.groups for d in g.datasets}
    assert ('tolokers', 'official') in tables
    for name in ('reddit', 'amazon_fraud_upu', 'yelpchi_rur'):
        assert {(name, 'et-40pct'), (name, 'et-1pct')} <= tables
    assert all(g.splits == tuple(range(10)) for g in config.groups)
