import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_geometric import nn as pyg

from torch_energy_graph.energies.classifier import free_energy
from torch_energy_graph.ood import JEMLoss, SGLDSampler
from torch_energy_graph.testing import random_graph


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_descent_finds_the_mode_of_a_quadratic_energy():
    mode = torch.tensor([0.7, -2.0])
    sampler = SGLDSampler(
        [2], num_steps=60, step_size=0.3, noise_std=0.0, buffer_size=20
    )
    out = sampler.sample(lambda x: 0.5 * (x - mode).square().sum(1), 50)
    # the distance shrinks by 0.7 in every step
    torch.testing.assert_close(out, mode.expand(50, 2), rtol=0, atol=1e-6)


def test_steps_with_noise_have_the_variance_of_their_chain():
    mode, step = torch.tensor([1.0, -1.0]), 0.2
    sampler = SGLDSampler(
        [2],
        num_steps=80,
        step_size=step,
        noise_std=(2 * step) ** 0.5,  # Langevin's, at temperature 1
        buffer_size=4000,
        restart=0.0,
        generator=generator(),
    )
    out = sampler.sample(lambda x: 0.5 * (x - mode).square().sum(1), 4000)
    torch.testing.assert_close(out.mean(0), mode, rtol=0, atol=0.1)
    # x - mode <- 0.8 (x - mode) + noise: variance 0.4 / (1 - 0.64)
    expected = torch.full((2,), 0.4 / 0.36)
    torch.testing.assert_close(out.var(0), expected, rtol=0.1, atol=0)


def test_chains_go_on_where_they_ended():
    sampler = SGLDSampler(
        [3],
        num_steps=1,
        step_size=0.5,
        noise_std=0.0,
        buffer_size=1,
        restart=0.0,
        generator=generator(),
    )
    start = sampler.buffer.clone()
    assert (start.abs() <= 1).all()
    for _ in range(2):
        out = sampler.sample(lambda x: 0.5 * x.square().sum(1), 1)
    torch.testing.assert_close(out, start / 4)
    assert torch.equal(sampler.buffer, out)
    assert torch.equal(sampler.state_dict()['buffer'], out)
    sampler.restart = 1.0
    out = sampler.sample(lambda x: 0 * x.sum(1), 1)
    assert not torch.equal(out, start / 4)


def test_clamped_steps_and_seeds():
    def draw(**options):
        sampler = SGLDSampler(
            [2], num_steps=3, generator=generator(5), **options
        )
        return sampler.sample(lambda x: 1e3 * x.sum(1), 4)

    assert torch.equal(draw(), draw())
    assert (draw(clamp=0.5) > -3).all()
    assert (draw() < -1e3).all()


def test_a_chain_that_explodes_leaves_the_buffer_alone():
    sampler = SGLDSampler([2], num_steps=200, step_size=10.0)
    before = sampler.buffer.clone()
    with pytest.raises(FloatingPointError, match='finite numbers'):
        sampler.sample(lambda x: x.square().sum(1), 5)
    assert torch.equal(sampler.buffer, before)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.GCNConv(3, 4)
        self.drop = nn.Dropout(0.5)
        self.lin = nn.Linear(4, 2)

    def forward(self, x, edge_index):
        return self.lin(self.drop(self.conv(x, edge_index).tanh()))


def case():
    torch.manual_seed(0)
    x, y = torch.randn(6, 3), torch.tensor([0, 1, 1, 0, -1, -1])
    return Net(), x, random_graph(6, 12).edge_index, y, y >= 0


def test_value_of_the_loss():
    logits = torch.randn(5, 3, generator=generator()).double()
    sampled = torch.randn(4, generator=generator(1)).double()
    y = torch.tensor([0, 2, 1, 0, 0])
    mask = torch.tensor([1, 1, 0, 0, 1]).bool()
    energy = -logits.exp().sum(-1).log()
    expected = F.cross_entropy(logits[mask], y[mask])
    expected = expected + energy.mean() - sampled.mean()
    loss_fn = JEMLoss(SGLDSampler([2]))
    torch.testing.assert_close(loss_fn(logits, y, sampled, mask), expected)
    expected = expected + 0.1 * ((energy**2).mean() + (sampled**2).mean())
    loss_fn = JEMLoss(SGLDSampler([2]), energy_l2=0.1)
    torch.testing.assert_close(loss_fn(logits, y, sampled, mask), expected)


def test_samples_of_features_read_the_edges_of_the_data():
    model, x, edge_index, y, mask = case()
    model.drop.p = 0.0
    sampler = SGLDSampler([3], num_steps=2, generator=generator())
    loss = JEMLoss(sampler).evaluate(model, y, x, edge_index, mask=mask)
    sampler = SGLDSampler([3], num_steps=2, generator=generator())
    sample = sampler.sample(lambda s: free_energy(model(s, edge_index)), 6)
    logits = model(x, edge_index)
    expected = F.cross_entropy(logits[mask], y[mask])
    expected = expected + free_energy(logits).mean()
    expected = expected - free_energy(model(sample, edge_index)).mean()
    assert torch.equal(loss, expected)
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_samples_in_the_latent_space():
    model, x, edge_index, y, mask = case()
    seen = []
    model.conv.register_forward_hook(lambda *_: seen.append(1))
    sampler = SGLDSampler([4], num_steps=5, generator=generator())
    loss_fn = JEMLoss(sampler, space='latent', energy_l2=1.0)
    loss_fn.evaluate(
        model, y, x, edge_index, mask=mask, head=model.lin
    ).backward()
    assert seen == [1]  # the encoder ran once
    assert model.lin.weight.grad.any()


def test_samples_are_drawn_in_eval_mode_and_move_no_gradient():
    model, x, edge_index, y, mask = case()
    model.conv.eval()
    modes = []
    model.drop.register_forward_hook(lambda m, *_: modes.append(m.training))
    sampler = SGLDSampler([3], num_steps=2)
    JEMLoss(sampler).evaluate(model, y, x, edge_index, mask=mask)
    assert modes == [True, False, False, True]
    assert model.training
    assert not model.conv.training
    assert all(p.grad is None for p in model.parameters())


def test_training_raises_the_density_of_the_data():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    x = 0.1 * torch.randn(64, 2) + torch.tensor([[0.5, 0.5]])
    x[32:] *= -1
    y = torch.arange(64) // 32
    loss_fn = JEMLoss(
        SGLDSampler([2], num_steps=5, step_size=0.3, buffer_size=100),
        energy_l2=0.05,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss_fn.evaluate(model, y, x).backward()
        optimizer.step()
    empty = torch.tensor([[0.8, -0.8], [-0.8, 0.8]])
    with torch.no_grad():
        assert free_energy(model(x)).max() < free_energy(model(empty)).min()
        assert (model(x).argmax(1) == y).all()


def test_divergence_is_reported():
    loss_fn = JEMLoss(SGLDSampler([2]), limit=100.0)
    logits, y = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    loss_fn(logits, y, torch.tensor([50.0]))
    for energy in (200.0, float('nan'), float('inf')):
        with pytest.raises(FloatingPointError, match='diverged'):
            loss_fn(logits, y, torch.tensor([energy]))


def test_bad_inputs():
    model, x, edge_index, y, mask = case()
    sampler = SGLDSampler([4])
    with pytest.raises(ValueError, match="'input' or 'latent'"):
        JEMLoss(sampler, space='hidden')
    with pytest.raises(ValueError, match='energy_l2 >= 0'):
        JEMLoss(sampler, energy_l2=-1.0)
    with pytest.raises(ValueError, match="exactly in space 'latent'"):
        JEMLoss(sampler).evaluate(model, y, x, edge_index, head=model.lin)
    latent = JEMLoss(sampler, space='latent')
    with pytest.raises(ValueError, match="exactly in space 'latent'"):
        latent.evaluate(model, y, x, edge_index)
    with pytest.raises(ValueError, match='return the logits'):
        latent.evaluate(model, y, x, edge_index, mask=mask, head=model.drop)
    with pytest.raises(ValueError, match='num_steps'):
        SGLDSampler([2], num_steps=0)
    with pytest.raises(ValueError, match='low < high'):
        SGLDSampler([2], low=1.0, high=-1.0)
