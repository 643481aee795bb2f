"""Scores in batches, and what they depend on."""

import numpy as np
import pytest
import torch

from torch_geometric.data import Data

from torch_energy_graph.detect import EnergyFraudDetector
from torch_energy_graph.detect.stream import score_batches
from torch_energy_graph.detect.surroundings import surroundings

pd = pytest.importorskip('pandas')


def chains(num_chains=30, length=8):
    """Paths that do not touch each other, with ids."""
    gen = torch.Generator().manual_seed(3)
    first = torch.arange(num_chains * length).view(num_chains, length)
    src, dst = first[:, :-1].reshape(-1), first[:, 1:].reshape(-1)
    edge_index = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])])
    x = torch.randn(num_chains * length, 4, generator=gen)
    order = torch.randperm(edge_index.size(1), generator=gen)
    num_edges = edge_index.size(1)
    return Data(
        x=x,
        edge_index=edge_index[:, order],
        edge_type=torch.randint(2, (num_edges,), generator=gen),
        edge_attr=torch.randn(num_edges, 2, generator=gen),
        node_id=[f'n{i}' for i in range(len(x))],
    )


def together(*args, **kwargs):
    return pd.concat(score_batches(*args, **kwargs), ignore_index=True)


def test_batches_within_their_surroundings(fitted, monkeypatch):
    graph = chains()
    nodes = torch.randperm(240).tolist()[:100]
    expected = fitted.score_table(graph).iloc[nodes].reset_index(drop=True)
    sizes = []
    original = EnergyFraudDetector.score_table

    def noted(self, data):
        sizes.append(data.num_nodes)
        return original(self, data)

    monkeypatch.setattr(EnergyFraudDetector, 'score_table', noted)
    found = together(fitted, graph, nodes, batch_size=7)
    assert len(sizes) == 15
    assert max(sizes) <= 7 * 8
    assert found['id'].tolist() == expected['id'].tolist()
    for name in ('probability', 'std', 'energy'):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
    # of a later start, the same bits
    later = together(fitted, graph, nodes, batch_size=7, start=49)
    pd.testing.assert_frame_equal(
        later, found[49:].reset_index(drop=True), check_exact=True
    )


def test_a_dense_graph_is_scored_once(fitted, graph, monkeypatch):
    expected, calls = fitted.score_table(graph), []
    original = EnergyFraudDetector.score_table

    def noted(self, data):
        calls.append(data.num_nodes)
        return original(self, data)

    monkeypatch.setattr(EnergyFraudDetector, 'score_table', noted)
    found = together(fitted, graph, range(240), batch_size=60)
    assert calls == [240]
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    with pytest.raises(ValueError, match='a multiple of it'):
        next(score_batches(fitted, graph, range(240), 60, start=30))
    assert list(score_batches(fitted, graph, range(90), 60, start=90)) == []


def test_surroundings_reach_as_far_as_the_scores(fitted):
    graph = chains(num_chains=2, length=30)
    near, nodes, places = surroundings(fitted.scorer_, graph, [40, 5])
    # two hops of means, two of the step, and one of the energy
    expected = [*range(11), *range(35, 46)]
    assert nodes.tolist() == expected
    assert nodes[places].tolist() == [40, 5]
    assert near.num_nodes == 22
