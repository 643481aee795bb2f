import pytest

from torch_energy_graph.bench import ConfigError, Unit, select

UNITS = [
    Unit(dataset, model, 'et-40pct', split, 0, {})
    for dataset in ('a', 'b')
    for model in ('et', 'gcn')
    for split in (0, 1)
]


def names(*filters):
    return [f'{u.dataset}{u.model}{u.split}' for u in select(UNITS, filters)]


def test_parts():
    assert select(UNITS, []) == UNITS
    assert names('dataset=a,model=et') == ['aet0', 'aet1']
    assert names('model=et|gcn,split=1,dataset=b') == ['bet1', 'bgcn1']
    assert names('dataset=b,model=gcn', 'split=0,model=et') == [
        *('aet0', 'bet0', 'bgcn0', 'bgcn1')
    ]
    assert len(names('protocol=et-40pct', 'seed=0')) == 8


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('model', 'expected .key=value'),
        ('modell=et', 'the keys dataset, model'),
        ('model=ett', "no unit has model 'ett'; did you mean 'et'"),
        ('split=7', "no unit has split '7'"),
    ],
)
def test_what_fits_nothing_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        names(text)
