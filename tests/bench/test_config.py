from dataclasses import dataclass
from typing import Literal

import pytest

from torch_energy_graph.bench import ConfigError, Group, load_config
from torch_energy_graph.bench.coerce import coerce

GOOD = """
name: tiny
groups:
  - datasets: [tiny]
    protocol: et-40pct
    splits: [0, 010]
models:
  logreg:
  et: {lr: 1e-3, note: no}
"""


def test_a_good_file(write_config):
    config = load_config(write_config(GOOD))
    assert config.name == 'tiny'
    assert config.groups == (Group(('tiny',), 'et-40pct', (0, 10)),)
    assert config.models == {
        'logreg': {},
        'et': {'lr': '1e-3', 'note': 'no'},  # typed by the model's signature
    }
    assert config.seeds == (0,)


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        (
            'name: tiny',
            'nmae: tiny',
            "unknown key 'nmae'; did you mean 'name'",
        ),
        ('name: tiny', '', "expected the key 'name'"),
        ('name: tiny', 'name: ../up', "'name': expected letters"),
        ('splits:', 'split:', r"groups\[0\]: unknown key 'split'"),
        ('[0, 010]', '[0, x]', r'groups\[0\].splits\[1\]: expected int'),
        ('[0, 010]', '[0, 1.5]', r"splits\[1\]: expected int \(got '1.5'"),
        ('[0, 010]', '3', r"splits: expected a list \(got '3'\)"),
        ('[0, 010]', '[]', "'splits': expected at least one"),
        ('[0, 010]', '[-1]', r'expected indices >= 0 \(got -1\)'),
        ('models:', 'seeds: [0]\nseeds: [1]\nmodels:', "'seeds' stands twice"),
        ('{lr: 1e-3, note: no}', '3', r'models.et: expected a mapping'),
        ('{lr: 1e-3, note: no}', '{lr: [', 'not valid YAML'),
        ('{lr: 1e-3, note: no}', '!!python/name:os.system', 'not valid YAML'),
    ],
)
def test_bad_files_say_where_and_how(write_config, old, new, message):
    path = write_config(GOOD.replace(old, new))
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize('text', ['', '- a\n', 'just text'])
def test_a_file_that_is_no_mapping(write_config, text):
    with pytest.raises(ConfigError, match='expected a mapping'):
        load_config(write_config(text))


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r'cannot read .*absent.yaml'):
        load_config(tmp_path / 'absent.yaml')


def test_overrides(write_config):
    config = load_config(
        write_config(GOOD),
        [
            'models.et.lr=0.5',
            'models.logreg.C=2',
            'groups.0.splits=[3, 4]',
            'groups.0.datasets.0=other',
            'seeds=[7]',
            'models.gcn={}',
        ],
    )
    assert config.models['et']['lr'] == '0.5'
    assert config.models['logreg'] == {'C': '2'}
    assert config.models['gcn'] == {}
    assert config.groups[0] == Group(('other',), 'et-40pct', (3, 4))
    assert config.seeds == (7,)


def test_an_override_changes_one_of_two_models_that_share_an_anchor(
    write_config,
):
    text = GOOD.replace('logreg:', 'logreg: &shared {C: 1}\n  agg: *shared')
    config = load_config(write_config(text), ['models.agg.C=2'])
    assert config.models['logreg'] == {'C': '1'}
    assert config.models['agg'] == {'C': '2'}


@pytest.mark.parametrize(
    ('override', 'message'),
    [
        ('models.et.lr', 'expected .key.subkey=value'),
        ('=3', 'expected .key.subkey=value'),
        ('groups.1.splits=[0]', r"expected an index below 1 \(got '1'\)"),
        ('groups.x.splits=[0]', r"expected an index below 1 \(got 'x'\)"),
        ('name.first=x', "nothing to set 'first' in"),
        ('name.first.second=x', "nothing lies below 'first'"),
        ('sedes=[0]', "unknown key 'sedes'; did you mean 'seeds'"),
        ('seeds=[0', 'not valid YAML'),
    ],
)
def test_bad_overrides(write_config, override, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write_config(GOOD), [override])


@dataclass(frozen=True)
class Inner:
    size: int
    flag: bool = False


@pytest.mark.parametrize(
    ('value', 'declared', 'expected'),
    [
        ('1e-3', float, 1e-3),
        (3, float, 3.0),
        ('010', int, 10),
        ('no', str, 'no'),
        ('no', bool, False),
        ('true', bool, True),
        ('null', int | None, None),
        ('5', int | None, 5),
        ('auto', float | Literal['auto'], 'auto'),
        ('0.1', float | Literal['auto'], 0.1),
        (['1', '2'], tuple[int, ...], (1, 2)),
        ({'a': '1'}, dict[str, float], {'a': 1.0}),
        ({'size': '2'}, Inner, Inner(2)),
    ],
)
def test_the_declared_type_decides(value, declared, expected):
    result = coerce(value, declared, 'f')
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ('value', 'declared'),
    [
        ('nan', float),
        ('inf', float),
        ('x', float),
        (True, int),
        (1.0, int),
        ('maybe', bool),
        (1, bool),
        (1, str),
        ('', int),
        ('x', int | None),
        ('often', float | Literal['auto']),
        ('1', tuple[int, ...]),
        ('1', dict[str, int]),
        ({'size': '1', 'flags': 'no'}, Inner),
    ],
)
def test_what_does_not_fit_is_refused(value, declared):
    with pytest.raises(ConfigError, match=r'^file\.key'):
        coerce(value, declared, 'file.key')
