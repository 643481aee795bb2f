import math

import pytest
import torch
from torch import nn

from torch_geometric import nn as pyg

from torch_energy_graph.ood import (
    SCORES,
    EnergyClassifier,
    EnergyPropagation,
    OutlierDetector,
)
from torch_energy_graph.testing import random_graph


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.GCNConv(3, 4)
        self.lin = nn.Linear(4, 3)

    def forward(self, x, edge_index, batch=None):
        h = self.conv(x, edge_index).tanh()
        if batch is not None:
            h = pyg.global_mean_pool(h, batch)
        return self.lin(h)


def case(**options):
    torch.manual_seed(0)
    model = EnergyClassifier(Net().double(), **options).eval()
    x = torch.randn(6, 3).double()
    return model, x, random_graph(6, 14).edge_index


def energies(logits, temperature):
    return torch.tensor(
        [
            -temperature
            * math.log(sum(math.exp(f / temperature) for f in row))
            for row in logits.tolist()
        ]
    ).double()


@pytest.mark.parametrize('temperature', [1.0, 2.5])
def test_energies_densities_and_scores(temperature):
    model, x, edge_index = case(temperature=temperature)
    logits = model.model(x, edge_index)
    assert torch.equal(model(x, edge_index), logits)
    energy = energies(logits, temperature)
    torch.testing.assert_close(model.energy(x, edge_index), energy)
    density = model.log_density(x, edge_index)
    torch.testing.assert_close(density, -energy / temperature)
    torch.testing.assert_close(model.score(x, edge_index), -energy)
    prob = (logits / temperature).softmax(-1).max(-1).values
    out = model.score(x, edge_index, kind='max_prob')
    torch.testing.assert_close(out, prob)
    out = model.score(x, edge_index=edge_index, kind='propagated')
    torch.testing.assert_close(out, -EnergyPropagation()(energy, edge_index))


def test_density_ratio_of_two_classifiers_with_one_softmax():
    model, x, edge_index = case()
    before = model.log_density(x, edge_index)
    prob = model.score(x, edge_index, kind='max_prob')
    with torch.no_grad():
        model.model.lin.bias += 3.0  # of every class
    after = model.log_density(x, edge_index)
    torch.testing.assert_close(after, before + 3.0)
    out = model.score(x, edge_index, kind='max_prob')
    torch.testing.assert_close(out, prob)


@pytest.mark.parametrize('temperature', [1.0, 2.0])
def test_approx_mass_is_the_gradient_of_the_log_density(temperature):
    model, x, edge_index = case(temperature=temperature)
    jacobian = torch.autograd.functional.jacobian(
        lambda x: model.log_density(x, edge_index).sum(), x
    )
    with torch.no_grad():
        out = model.score(x, edge_index, kind='approx_mass')
    torch.testing.assert_close(out, -jacobian.norm(dim=1))


def test_scores_of_graphs():
    model, x, edge_index = case()
    edge_index = edge_index[:, (edge_index < 3).all(0)]
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    for kind in ('energy', 'max_prob', 'approx_mass'):
        both = model.score(x, edge_index, batch=batch, kind=kind)
        alone = model.score(x[:3], edge_index, batch=batch[:3], kind=kind)
        assert both.shape == (2,)
        torch.testing.assert_close(both[:1], alone)


def test_labels_that_hold_together():
    model, x, edge_index = case(multi_label=True)
    logits = model(x, edge_index)
    expected = -(1 + logits.exp()).log().sum(-1)
    torch.testing.assert_close(model.energy(x, edge_index), expected)
    out = model.score(x, edge_index, kind='max_prob')
    torch.testing.assert_close(out, logits.sigmoid().max(-1).values)


def test_energies_can_be_trained_and_scores_cannot():
    model, x, edge_index = case()
    assert model.energy(x, edge_index).requires_grad
    for kind in SCORES:
        assert not model.score(x, edge_index, kind=kind).requires_grad
    assert not x.requires_grad
    assert all(p.grad is None for p in model.parameters())


def test_detectors_have_the_other_sign():
    model, x, edge_index = case()
    for kind in SCORES:
        detector = model.detector(kind).fit(None)
        out = detector(x, edge_index)
        assert torch.equal(out, -model.score(x, edge_index, kind=kind))
        assert torch.equal(out, detector.predict(x, edge_index))


def test_metrics_of_pytorch_ood():
    pytorch_ood = pytest.importorskip('pytorch_ood.utils')
    from torch_energy_graph.metrics import ood_metrics

    model, x, edge_index = case()
    score = model.detector()(x, edge_index)
    known = torch.tensor([1, 0, 1, 1, 0, 0])
    metrics = pytorch_ood.OODMetrics()
    metrics.update(score, known - 1)  # negative labels are outliers
    ours = ood_metrics(-score[known == 1], -score[known == 0])
    assert metrics.compute()['AUROC'] == pytest.approx(ours.auroc)


def test_known_inputs_score_high_after_training():
    torch.manual_seed(0)
    x = torch.randn(200, 2) + torch.tensor([[4.0, 0.0]])
    x[100:] *= torch.tensor([[-1.0, 1.0]])
    y = torch.arange(200) // 100
    model = EnergyClassifier(nn.Sequential(nn.Linear(2, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    between = torch.randn(100, 2)  # no class is near
    for kind in ('energy', 'max_prob'):
        known, other = (
            model.score(x, kind=kind),
            model.score(between, kind=kind),
        )
        assert known.median() > other.median()


def test_bad_inputs():
    model, x, edge_index = case()
    with pytest.raises(ValueError, match='temperature > 0'):
        EnergyClassifier(nn.Linear(1, 2), temperature=0.0)
    with pytest.raises(ValueError, match="'kind' must be one of"):
        model.score(x, edge_index, kind='entropy')
    with pytest.raises(ValueError, match="'kind' must be one of"):
        OutlierDetector(model, 'entropy')
    with pytest.raises(ValueError, match=r'score\(x, edge_index\)'):
        EnergyClassifier(nn.Linear(3, 2)).score(x.float(), kind='propagated')
    zeros = torch.zeros(6, dtype=torch.long)
    with pytest.raises(ValueError, match=r'score\(x, edge_index\)'):
        model.score(x, edge_index, batch=zeros, kind='propagated')
    wrong = EnergyClassifier(nn.Sequential(nn.Linear(3, 2), nn.LogSoftmax(-1)))
    with pytest.raises(ValueError, match='before log_softmax'):
        wrong.score(x.float())
    with pytest.raises(ValueError, match='multi_label=True'):
        EnergyClassifier(nn.Flatten(0)).energy(x)
