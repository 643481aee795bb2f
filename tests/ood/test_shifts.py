import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform, Compose
from torch_geometric.utils import coalesce, is_undirected

from torch_energy_graph.ood.shifts import (
    FeatureShift,
    LabelShift,
    StructureShift,
    _pairs_within,
)

SHIFTS = [StructureShift(0), FeatureShift(0), LabelShift([0])]
ids = [type(shift).__name__ for shift in SHIFTS]


def graph(num_nodes=40, num_edges=300, classes=4, seed=0):
    gen = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=gen)
    return Data(
        x=torch.randn(num_nodes, 3, generator=gen),
        edge_index=edge_index,
        edge_attr=torch.randn(num_edges, 2, generator=gen),
        y=torch.arange(num_nodes) % classes,
        train_mask=torch.arange(num_nodes) < num_nodes // 2,
    )


@pytest.mark.parametrize('shift', SHIFTS, ids=ids)
def test_they_are_pyg_transforms(shift):
    data = graph()
    before = copy.deepcopy(data)
    out = Compose([shift])(data)
    assert isinstance(shift, BaseTransform)
    assert out.validate()
    for key in before.keys():  # noqa: SIM118
        assert torch.equal(data[key], before[key]), key


@pytest.mark.parametrize('shift', SHIFTS[:2], ids=ids[:2])
def test_the_seed_alone_decides(shift):
    data, key = graph(), 'edge_index'
    key = 'x' if isinstance(shift, FeatureShift) else 'edge_index'
    torch.manual_seed(1)
    first = shift(data)[key]
    state = torch.get_rng_state()
    assert torch.equal(shift(data)[key], first)
    assert torch.equal(torch.get_rng_state(), state)
    other = type(shift)(1)(data)[key]
    assert other.shape != first.shape or not torch.equal(other, first)


def test_structure_has_simple_edges_in_both_directions():
    out = StructureShift(3)(graph())
    assert is_undirected(out.edge_index, num_nodes=40)
    assert torch.equal(coalesce(out.edge_index), out.edge_index)
    assert not (out.edge_index[0] == out.edge_index[1]).any()
    assert 'edge_attr' not in out
    assert out.train_mask.sum() == 20


def test_structure_has_the_densities_of_its_blocks():
    data = graph(1000, 20_000, classes=3)  # blocks of 333, 333 and 334
    density = data.num_edges / (1000 * 999)
    block = (torch.arange(1000) // 333).clamp(max=2)
    within, across = [], []
    for seed in range(5):
        src, dst = StructureShift(seed)(data).edge_index
        inside = int((block[src] == block[dst]).sum())
        within.append(inside)
        across.append(src.numel() - inside)
    pairs = 333 * 332 * 2 + 334 * 333  # ordered, within
    others = 1000 * 999 - pairs
    # two edges a pair: the deviation of the mean of 5 runs is below 1 %
    assert np.mean(within) == pytest.approx(1.5 * density * pairs, rel=0.04)
    assert np.mean(across) == pytest.approx(0.5 * density * others, rel=0.04)


def test_structure_at_certainty_is_the_block_graph():
    complete = torch.ones(7, 7).fill_diagonal_(0).nonzero().t()
    data = Data(x=torch.randn(7, 1), edge_index=complete, num_nodes=7)
    out = StructureShift(0, within=1, across=0, num_blocks=3)(data)
    # blocks {0, 1}, {2, 3}, {4, 5, 6}
    pairs = {tuple(edge) for edge in out.edge_index.t().tolist()}
    half = {(0, 1), (2, 3), (4, 5), (4, 6), (5, 6)}
    assert pairs == half | {(b, a) for a, b in half}
    out = StructureShift(0, within=0, across=1, num_blocks=3)(data)
    assert out.num_edges == 7 * 6 - len(pairs)


@given(st.integers(0, 60))
def test_all_pairs_within_a_block_are_met_once(size):
    i, j = _pairs_within(np.random.default_rng(0), size, 1.0)
    assert sorted(zip(i, j, strict=True)) == [
        (a, b) for a in range(size) for b in range(a)
    ]


def test_pairs_of_a_large_block_are_decoded_exactly():
    size = 3_000_000
    total = size * (size - 1) // 2

    class Ends:  # the codes around the ends of rows
        def binomial(self, n, p):
            return 4

        def choice(self, n, count, **kwargs):
            row = 2_999_999
            first = row * (row - 1) // 2
            return np.array([0, first - 1, first, total - 1])

    i, j = _pairs_within(Ends(), size, 0.5)
    assert i.tolist() == [1, 2_999_998, 2_999_999, 2_999_999]
    assert j.tolist() == [0, 2_999_997, 0, 2_999_998]


def test_features_are_mixtures_of_two_nodes():
    data = Data(x=torch.eye(50).double(), num_nodes=50)
    x = FeatureShift(2)(data).x
    torch.testing.assert_close(x.sum(1), torch.ones(50).double())
    assert (x >= 0).all()
    assert ((x > 0).sum(1) <= 2).all()
    weight = x.max(1).values  # of U[0, 1] and its complement: mean 3/4
    assert 0.7 < weight.mean() < 0.8


def test_labels():
    data = Data(
        x=torch.zeros(7, 1),
        edge_index=torch.tensor([[0], [1]]),
        y=torch.tensor([0, 1, 2, 3, 4, -1, 2]),
        train_mask=torch.tensor([1, 1, 0, 0, 1, 1, 1]).bool(),
        val_mask=torch.zeros(7, 2).bool(),
    )
    out = LabelShift([1, 0], exposed=[3])(data)
    assert out.y.tolist() == [-1, -1, 0, -1, 1, -1, 0]
    assert out.ood_mask.tolist() == [True, True, *[False] * 5]
    assert out.exposed_mask.nonzero().tolist() == [[3]]
    assert out.train_mask.nonzero().view(-1).tolist() == [4, 6]
    assert out.val_mask.shape == (7, 2)
    assert torch.equal(out.edge_index, data.edge_index)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda d: StructureShift(0, within=-1), 'within >= 0'),
        (lambda d: StructureShift(0, num_blocks=0), 'num_blocks >= 1'),
        (lambda d: StructureShift(0, within=1e4)(d), 'would exceed 1'),
        (lambda d: StructureShift(0, num_blocks=41)(d), 'from 1 to 40'),
        (lambda d: StructureShift(0)(Data(num_nodes=3)), "give 'num_blocks'"),
        (lambda d: FeatureShift(0)(Data(x=d.y)), 'floating-point features'),
        (lambda d: LabelShift([]), 'at least one class'),
        (lambda d: LabelShift([1], [1]), 'none of them in exposed'),
        (lambda d: LabelShift([9])(d), r'\(got \[9\]\)'),
        (lambda d: LabelShift([0, 1, 2])(d), 'keep two or more'),
        (lambda d: LabelShift([0])(Data(x=d.x)), 'as integers'),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(graph())
