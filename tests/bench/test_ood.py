"""teg evaluate's numbers, and NG-EBM as a loss of teg train."""

import dataclasses
import json

import pytest
import torch
from torch.nn.functional import cross_entropy

from torch_geometric.data import Data

from torch_energy_graph import bench
from torch_energy_graph.bench.objective import LossConfig, objective_of
from torch_energy_graph.bench.ood import evaluate_training
from torch_energy_graph.energies.classifier import free_energy
from torch_energy_graph.metrics import (
    ood_metrics,
    top_label_calibration_error,
)
from torch_energy_graph.ood import EnergyPropagation, StructureShift

CONFIG = bench.TrainConfig(
    task='classification',
    name='tiny',
    dataset='ood_tiny',
    protocol='random-60-20-20',
    model='gcn_cls',
    params={
        'epochs': 6,
        'hidden_channels': 8,
        'features': 'standard',
        'patience': None,
    },
    leave_out=(3,),
)


@bench.register_dataset('ood_tiny')
def ood_tiny():
    gen = torch.Generator().manual_seed(0)
    y = torch.arange(4).repeat(20)
    x = 2 * torch.eye(4)[y] + torch.randn(80, 4, generator=gen)
    ends = torch.randint(80, (2, 500), generator=gen)
    same = y[ends[0]] == y[ends[1]]
    return Data(x=x, edge_index=ends[:, same], y=y)


def dense_ngebm(beta, variance, x, weight, adj, y, mask):
    """The loss of a linear GCN, written with the closed gradient."""
    logits = adj @ x @ weight
    prob = logits[mask].softmax(-1)
    grad = adj[mask].t() @ prob @ weight.t()  # of the summed energy, sign off
    energy = -logits[mask].logsumexp(-1)
    return (
        (1 - beta) * cross_entropy(logits[mask], y[mask])
        + beta * grad[mask].norm(dim=1).mean()
        + variance * energy.var(correction=0)
    )


def test_the_objective_is_ngebm_of_the_training_nodes():
    gen = torch.Generator().manual_seed(1)
    x, weight = (
        torch.randn(*s, generator=gen).double() for s in ((6, 3), (3, 4))
    )
    adj = torch.rand(6, 6, generator=gen).double()
    y, mask = torch.tensor([0, 1, 2, 3, 0, 1]), torch.arange(6) < 4
    objective = objective_of(LossConfig('ngebm', 0.3, 0.7))
    out = objective(lambda part: adj @ part.x @ weight, Data(x=x), mask, y)
    expected = dense_ngebm(0.3, 0.7, x, weight, adj, y, mask)
    torch.testing.assert_close(out, expected)


def test_a_loss_is_checked_with_the_configuration():
    with pytest.raises(bench.ConfigError, match=r"'loss': .* beta in"):
        LossConfig('ngebm', 1.0)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp('run')
    bench.Training(CONFIG, path).run()
    return path


def test_numbers(folder):
    found = evaluate_training(folder, ['structure', 'label', 'structure'], 5)
    training = bench.Training(CONFIG, folder)
    scores = torch.from_numpy(training.trainer.finish().scores)
    y, test = training.data.y, training.split.test
    assert y.unique().tolist() == [-1, 0, 1, 2]
    assert not (test & training.data.ood_mask).any()
    right = (scores.argmax(1) == y)[test].double().mean().item()
    assert found['test']['accuracy'] == right
    assert found['test']['ece'] == pytest.approx(
        top_label_calibration_error(y[test], scores[test])
    )
    assert found['scaled']['accuracy'] == right
    assert found['scaled']['nll'] != found['test']['nll']
    assert list(found['ood']) == ['structure', 'label']
    confidence = scores.amax(1)
    expected = ood_metrics(
        confidence[test], confidence[training.data.ood_mask]
    )
    assert found['ood']['label']['max_prob'] == pytest.approx(
        expected._asdict()
    )


def test_a_shifted_graph_keeps_the_scaling_of_the_trained_one(folder):
    found = evaluate_training(folder, ['structure'], seed=5)
    training = bench.Training(CONFIG, folder)
    training.trainer.finish()
    network, params = training.network, training.params
    data = network.prepare(training.data, training.split, params)
    moved = StructureShift(5, num_blocks=3)(data)
    assert torch.equal(moved.x, data.x)

    @torch.no_grad()
    def propagated(graph):
        model = training.trainer.model.eval()
        logits = model(**network.inputs(graph, params)).double()
        return -EnergyPropagation()(free_energy(logits), graph.edge_index)

    known, strange = propagated(data), propagated(moved)
    expected = ood_metrics(known[training.split.test], strange)
    assert found['ood']['structure']['propagated'] == pytest.approx(
        expected._asdict()
    )


def test_ngebm_lowers_the_gradient(folder, tmp_path):
    def norm(config, path):
        training = bench.Training(config, path)
        training.run()
        network, params = training.network, training.params
        data = network.prepare(training.data, training.split, params)
        x = data.x.requires_grad_()
        model = training.trainer.model.eval()
        inputs = {**network.inputs(data, params), 'x': x}
        energy = free_energy(model(**inputs))[training.split.train]
        (grad,) = torch.autograd.grad(energy.sum(), x)
        return grad[training.split.train].norm(dim=1).mean().item()

    params = {**CONFIG.params, 'epochs': 30}
    plain = dataclasses.replace(CONFIG, params=params)
    flat = dataclasses.replace(plain, loss=LossConfig('ngebm', 0.8))
    ratio = norm(flat, tmp_path / 'b') / norm(plain, tmp_path / 'a')
    assert ratio < 0.7


def test_folders_from_before_losses_go_on(folder, tmp_path):
    stored = json.loads((folder / 'train.json').read_text())
    for key in ('loss', 'leave_out'):
        del stored[key]
    (tmp_path / 'train.json').write_text(json.dumps(stored))
    whole = dataclasses.replace(CONFIG, leave_out=())
    bench.Training(whole, tmp_path)
    with pytest.raises(bench.ConfigError, match=r'\(leave_out\)'):
        bench.Training(CONFIG, tmp_path)


def test_errors(folder, tmp_path):
    with pytest.raises(bench.ConfigError, match='no finished training'):
        evaluate_training(tmp_path)
    whole = dataclasses.replace(CONFIG, leave_out=())
    bench.Training(whole, tmp_path).run()
    with pytest.raises(bench.ConfigError, match='leave_out='):
        evaluate_training(tmp_path, ['label'])
