import pytest
import torch

from torch_energy_graph.dynamics import EnergyTrace, descend
from torch_energy_graph.nn import EnergyTransformerConv
from torch_energy_graph.testing import random_graph


def quadratic(steps, step_size=0.25, **kwargs):
    """E(g) = |g|^2 / 2 with g = x: every step multiplies by 1 - alpha."""
    x = torch.tensor([[8.0, 0.0], [0.0, 4.0]])
    return descend(
        x,
        norm=lambda x: x,
        field=lambda g: -g,
        num_steps=steps,
        step_size=step_size,
        energy=lambda g: 0.5 * g.square().sum(-1),
        **kwargs,
    )


def test_quadratic_bowl_by_hand():
    x, trace = quadratic(2)
    assert x.tolist() == [[4.5, 0.0], [0.0, 2.25]]
    assert trace.energy.tolist() == [40.0, 22.5, 12.65625]
    torch.testing.assert_close(trace.grad_norm[0] ** 2, torch.tensor(80.0))
    assert trace.step_size.tolist() == [0.25, 0.25]
    assert trace.change.tolist() == [2.0, 1.5]
    assert trace.num_steps == 2
    assert trace.is_monotone()


def test_traces_of_graphs_are_apart():
    batch = torch.tensor([1, 0])
    _, trace = quadratic(1, batch=batch, batch_size=3)
    assert trace.energy.tolist() == [[8.0, 32.0, 0.0], [4.5, 18.0, 0.0]]
    assert trace.grad_norm.tolist() == [[4.0, 8.0, 0.0]]
    assert trace.change.tolist() == [[1.0, 2.0, 0.0]]


def test_a_step_per_node_and_a_rule():
    x, trace = quadratic(1, step_size=torch.tensor([0.5, 0.0]))
    assert x.tolist() == [[4.0, 0.0], [0.0, 4.0]]
    assert trace.step_size.tolist() == [[0.5, 0.0]]
    x, _ = quadratic(1, step_size=lambda x, force: force.norm(dim=-1) / 8)
    assert x.tolist() == [[0.0, 0.0], [0.0, 2.0]]


def test_no_steps():
    x, trace = quadratic(0)
    assert x.tolist() == [[8.0, 0.0], [0.0, 4.0]]
    assert trace.energy.tolist() == [40.0]
    assert trace.num_steps == 0
    assert trace.is_monotone()


def test_it_stops_when_the_activations_rest():
    """The state drifts along the ones vector, which the norm does not see."""
    x = torch.tensor([[3.0, 1.0]])

    def norm(x):
        return x - x.mean(-1, keepdim=True)

    def field(g):
        return -g + 1.0

    out, trace = descend(
        x, norm, field, 100, 0.5, energy=lambda g: g.square().sum(-1), tol=0.1
    )
    # g is halved in every step: changes 0.5, 0.25, 0.125, 0.0625
    assert trace.change.tolist() == [0.5, 0.25, 0.125, 0.0625]
    assert trace.num_steps == 4
    assert out.mean().item() == 4.0  # and x moved by 0.5 in each


def test_rises_are_seen():
    rising = EnergyTrace(
        torch.tensor([[1.0, 5.0], [0.5, 5.1]]),
        torch.ones(1, 2),
        torch.ones(1),
        torch.ones(1, 2),
    )
    assert not rising.is_monotone()
    assert rising.is_monotone(tol=0.02)


def test_plot_draws_the_energies():
    pytest.importorskip('matplotlib').use('Agg')
    _, trace = quadratic(2)
    axes = trace.plot()
    assert axes.lines[0].get_ydata().tolist() == [40.0, 22.5, 12.65625]


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'num_steps': -1}, "'num_steps' must be >= 0"),
        ({'num_steps': 1, 'noise_std': -0.1}, "'noise_std' must be >= 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        descend(torch.ones(1, 1), lambda x: x, lambda g: g, **arguments)


def test_noise_comes_from_the_generator():
    def run(seed):
        gen = torch.Generator().manual_seed(seed)
        return quadratic(3, noise_std=1.0, generator=gen)[0]

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))
    # one step from 0 with alpha = 0.25: standard deviation sqrt(0.25) * 2
    x, _ = descend(
        torch.zeros(20_000, 1), lambda x: x, torch.zeros_like, 1, 0.25,
        noise_std=2.0, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert x.std().item() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize('num_steps', [1, 4, 5, 12])
@pytest.mark.parametrize('step_size', [0.1, 'learn', 'auto'])
def test_checkpoints_change_nothing_but_memory(num_steps, step_size):
    graph = random_graph(10, 40)
    grads = []
    for checkpoint in (False, True):
        torch.manual_seed(0)
        layer = EnergyTransformerConv(
            4, num_steps=num_steps, step_size=step_size, checkpoint=checkpoint
        ).double()
        x = torch.randn(10, 4, dtype=torch.double, requires_grad=True)
        out = layer(x, graph.edge_index)
        loss = (out * torch.arange(4)).sum()
        grads.append(
            [out, *torch.autograd.grad(loss, [x, *layer.parameters()])]
        )
    for found, expected in zip(*grads, strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(('num_steps', 'kept'), [(4, 4), (12, 3), (30, 5)])
def test_checkpoints_keep_few_states(num_steps, kept):
    graph = random_graph(500, 2000)
    layer = EnergyTransformerConv(8, num_steps=num_steps, checkpoint=True)
    states = set()

    def pack(tensor):
        if tensor.shape == (500, 8):
            states.add(tensor.data_ptr())
        return tensor

    x = torch.randn(500, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = layer(x, graph.edge_index)
    assert out.requires_grad
    assert len(states) == kept
