"""Names of the graphs that have classes and files of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch_energy_graph.datasets.cards import (
    GADBENCH_NOTES,
    GADBENCH_ORIGIN,
    NOTES,
    ORIGINS,
)
from torch_energy_graph.datasets.dgraph_fin import DGraphFin
from torch_energy_graph.datasets.elliptic_bitcoin import (
    EllipticBitcoinDataset,
)
from torch_energy_graph.datasets.fraud_amazon import FraudAmazon
from torch_energy_graph.datasets.fraud_yelp import FraudYelp
from torch_energy_graph.datasets.gadbench import GADBenchDataset
from torch_energy_graph.datasets.roots import Root, find_file
from torch_energy_graph.datasets.stored_graph import StoredGraph
from torch_energy_graph.datasets.t_finance import TFinance
from torch_energy_graph.datasets.t_social import TSocial

__all__ = ['NAMED', 'Named']

_Load = Callable[[Root], StoredGraph]


@dataclass(frozen=True)
class Named:
    """A graph by name: where its file may lie, how to load it, its card."""

    name: str
    places: tuple[str, ...]
    load: _Load
    origin: tuple[str, str]
    notes: tuple[str, ...]

    def find(self, root: Root = None) -> Path:
        """Path of the file; FileNotFoundError says where it may lie."""
        return find_file(self.name, self.places, root)


def _named() -> list[Named]:
    classes: dict[str, tuple[_Load, tuple[str, ...]]] = {
        'dgraphfin': (DGraphFin, DGraphFin.places),
        'elliptic': (EllipticBitcoinDataset, EllipticBitcoinDataset.places),
        'fraud_amazon': (FraudAmazon, FraudAmazon.places),
        'fraud_yelp': (FraudYelp, FraudYelp.places),
        'tfinance': (TFinance, TFinance.places),
        'tsocial': (TSocial, TSocial.places),
    }
    single = [
        Named(name, places, kind, ORIGINS[name], NOTES[name])
        for name, (kind, places) in classes.items()
    ]
    gadbench = [
        Named(
            f'gadbench_{name.replace("/", "_")}',
            GADBenchDataset.places(name),
            partial(GADBenchDataset, name),
            GADBENCH_ORIGIN,
            GADBENCH_NOTES,
        )
        for name in GADBenchDataset.names
    ]
    return [*single, *gadbench]


NAMED = {entry.name: entry for entry in _named()}
