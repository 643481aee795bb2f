import pytest

from tests.detect.graphs import SMALL, fraud_graph
from torch_energy_graph.detect import EnergyFraudDetector


@pytest.fixture(scope='session')
def graph():
    return fraud_graph(relations=2, edge_dim=2)


@pytest.fixture(scope='session')
def fitted(graph):
    return EnergyFraudDetector(**SMALL).fit(graph)
