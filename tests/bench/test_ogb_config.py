from pathlib import Path

import pytest

from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.ogb_config import (
    RECIPES,
    as_config,
    load_ogb_config,
)
from torch_energy_graph.bench.ogb_data import DATASETS
from torch_energy_graph.bench.ogb_models import GCNParams

CONFIGS = Path(__file__).parents[2] / 'benchmarks' / 'configs'


@pytest.mark.parametrize('name', DATASETS)
def test_the_committed_file_spells_out_the_recipe(name):
    file = CONFIGS / f'{name.replace("-", "_")}.yaml'
    assert load_ogb_config(file) == load_ogb_config(name)


def test_every_dataset_has_a_recipe_with_the_seeds_of_the_leaderboard():
    assert tuple(RECIPES) == DATASETS
    for name in DATASETS:
        assert load_ogb_config(name).seeds == tuple(range(10))


def test_the_published_size_on_proteins():
    """45,808 parameters: 8 features, three layers of 64, 112 tasks."""
    config = load_ogb_config('ogbn-proteins')
    model = config.params.build(8, 112)
    assert sum(p.numel() for p in model.parameters()) == 45_808
    assert config.training.part_size == 10_000


def test_values_get_their_declared_types_and_overrides_hold():
    config = load_ogb_config(
        'ogbn-arxiv',
        ['model=gcn', 'training.lr=1e-3', 'params.norm=null', 'seeds=[3, 1]'],
    )
    assert config.training.lr == 0.001
    assert config.seeds == (3, 1)
    assert config.params == GCNParams(256, 3, 0.5, None)
    assert config.method == 'GCN'
    # the recipe itself is as it was
    assert load_ogb_config('ogbn-arxiv').model == 'difformer'


def test_the_hash_tells_what_decides_a_result_and_nothing_else():
    base = load_ogb_config('ogbn-arxiv')
    for change in ('training.lr=0.5', 'params.heads=2', 'data.undirected=no'):
        assert load_ogb_config('ogbn-arxiv', [change]).hash != base.hash
    for change in ('method=X', 'external_data=true', 'seeds=[0]'):
        assert load_ogb_config('ogbn-arxiv', [change]).hash == base.hash


@pytest.mark.parametrize(
    ('override', 'message'),
    [
        ('model=difform', "unknown model 'difform'; did you mean"),
        ('training.lrr=1', "unknown key 'lrr'; did you mean 'lr'"),
        ('params.hops=1', "unknown key 'hops'"),
        ('params.kernel=softmax', "one of 'simple', 'sigmoid'"),
        ('training.epochs=0', "'epochs': expected >= 1"),
        ('training.part_size=0', "'part_size': expected >= 1"),
        ('data.edge_features=max', "one of 'mean', 'sum'"),
        ('dataset=ogbn-mag', "one of 'ogbn-arxiv'"),
        ('seeds=[]', 'expected different ones'),
        ('seeds=[1, 1]', 'expected different ones'),
    ],
)
def test_mistakes_are_named(override, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load_ogb_config('ogbn-arxiv', [override])
    assert str(caught.value).startswith('ogbn-arxiv')


def test_neither_file_nor_dataset(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'ogbn-arxiv'"):
        load_ogb_config('ogbn-arxi')
    with pytest.raises(ConfigError, match='cannot read'):
        load_ogb_config(tmp_path)
    with pytest.raises(ConfigError, match='expected a mapping'):
        as_config(None, 'x')
    file = tmp_path / 'c.yaml'
    file.write_text('model: gcn\n')
    with pytest.raises(ConfigError, match="expected the key 'dataset'"):
        load_ogb_config(file)
