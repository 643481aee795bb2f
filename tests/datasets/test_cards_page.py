"""The numbers of the cards in docs/data.md are those of the data."""

import re
from pathlib import Path

import pytest

from torch_energy_graph import datasets

PAGE = Path(__file__).parents[2] / 'docs' / 'data.md'
ROW = re.compile(r'^\| `(\w+)` \|((?: [\d.,]+(?: %)? \|){8})$', re.MULTILINE)
CARDS = {
    name: tuple(cell.strip() for cell in cells.strip('|').split('|'))
    for name, cells in ROW.findall(PAGE.read_text('utf-8'))
}


def card_of(facts):
    counts = ('num_nodes', 'num_edges', 'num_features')
    counts = (*counts, 'num_labeled', 'num_anomalies')
    return (
        *(f'{facts[key]:,}' for key in counts),
        f'{100 * facts["prevalence"]:.2f} %',
        f'{facts["homophily"]:.3f}',
        f'{facts["anomaly_homophily"]:.3f}',
    )


def test_cards_are_found():
    assert {'tolokers', 'reddit', 'digits_outlier'} < set(CARDS)
    assert {'amazon_fraud_upu', 'yelpchi_rur'} < set(CARDS)


@pytest.mark.parametrize('name', CARDS)
def test_cards_are_measured(name, request, require_file):
    root = None
    if name != 'digits_outlier':
        root = request.getfixturevalue('data_root')
        require_file(root / f'{name}.npz')
    assert CARDS[name] == card_of(datasets.info(name, root))
