import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_geometric import EdgeIndex
from torch_geometric import nn as pyg

from torch_energy_graph.energies.classifier import free_energy
from torch_energy_graph.ood import (
    NGEBMLoss,
    energy_gradient,
    row_norms,
    second_order_paths,
)
from torch_energy_graph.testing import random_graph


class Net(nn.Module):
    """Two smooth layers that read edges, and a linear head."""

    def __init__(self, head=None):
        super().__init__()
        self.conv1 = pyg.GCNConv(3, 5)
        self.conv2 = pyg.GCNConv(5, 4)
        self.lin = nn.Linear(4, 3) if head is None else head

    def embed(self, x, edge_index):
        h = self.conv1(x, edge_index).tanh()
        return self.conv2(h, edge_index).tanh()

    def forward(self, x, edge_index, batch=None):
        h = self.embed(x, edge_index)
        if batch is not None:
            h = pyg.global_add_pool(h, batch)
        return self.lin(h)


def case(seed=0, head=None):
    torch.manual_seed(seed)
    model = Net(head).double()
    data = random_graph(7, 15, seed, num_isolated=1)
    x, y = torch.randn(7, 3).double(), torch.randint(3, (7,))
    mask = torch.tensor([1, 1, 0, 1, 0, 0, 1]).bool()
    return model, x, data.edge_index, y, mask


def brute_force(model, x, edge_index, y, rows, on, squared, scale):
    """Cross-entropy, gradient term and variance, entry by entry."""

    def energies(x):
        logits = model(x, edge_index)
        return -torch.stack(
            [sum(f.exp() for f in row).log() for row in logits]
        )

    jacobian = torch.autograd.functional.jacobian(energies, x)  # [N, N, F]
    nodes = rows if on == 'labelled' else list(range(len(x)))
    std = x.std(0, correction=0) if scale else torch.ones(x.size(1))
    norms = []
    for j in nodes:
        grad = sum(jacobian[i, j] for i in nodes) * std
        norms.append(sum(g**2 for g in grad) ** (1.0 if squared else 0.5))
    energy = energies(x)[nodes]
    spread = sum((e - energy.mean()) ** 2 for e in energy) / len(nodes)
    prob = model(x, edge_index).softmax(-1)
    fit = -sum(prob[i, y[i]].log() for i in rows) / len(rows)
    return fit, sum(norms) / len(norms), spread


@pytest.mark.parametrize('on', ['labelled', 'all'])
@pytest.mark.parametrize('squared', [False, True])
@pytest.mark.parametrize('scale', [None, 'std'])
def test_equals_brute_force(on, squared, scale):
    model, x, edge_index, y, mask = case()
    loss_fn = NGEBMLoss(0.3, 0.7, squared=squared, on=on, feature_scale=scale)
    out = loss_fn.evaluate(model, y, x, edge_index, mask=mask)
    rows = mask.nonzero().view(-1).tolist()
    fit, grad, spread = brute_force(
        model, x, edge_index, y, rows, on, squared, scale
    )
    expected = 0.7 * fit + 0.3 * grad + 0.7 * spread
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)


def test_joint_gradient_equals_finite_differences():
    model, x, edge_index, _, _ = case(1)
    x.requires_grad_()
    grad = energy_gradient(free_energy(model(x, edge_index)), x)
    with torch.no_grad():
        for j in range(x.size(0)):
            for c in range(x.size(1)):
                step = torch.zeros_like(x)
                step[j, c] = 1e-6
                up = free_energy(model(x + step, edge_index)).sum()
                down = free_energy(model(x - step, edge_index)).sum()
                rise = (up - down) / 2e-6
                assert float(grad[j, c]) == pytest.approx(
                    float(rise), abs=1e-8
                )


def gradients(loss, model):
    return torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize('multi_label', [False, True])
@pytest.mark.parametrize('on', ['labelled', 'all'])
@pytest.mark.parametrize('head', [nn.Linear(4, 3), pyg.Linear(4, 3)])
def test_closed_form_of_a_linear_head_equals_autograd(head, on, multi_label):
    model, x, edge_index, y, mask = case(2, head)
    if multi_label:
        y = F.one_hot(y, 3)
    loss_fn = NGEBMLoss(
        0.6, 0.1, mode='latent', on=on, multi_label=multi_label
    )
    closed = loss_fn.evaluate(
        model, y, x, edge_index, mask=mask, head=model.lin
    )
    hidden = model.embed(x, edge_index)
    by_autograd = loss_fn(model.lin(hidden), y, hidden, mask)
    torch.testing.assert_close(closed, by_autograd, rtol=0, atol=1e-12)
    pairs = zip(
        gradients(closed, model), gradients(by_autograd, model), strict=True
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_heads_that_are_not_linear():
    head = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    model, x, edge_index, y, _ = case(3, head)
    loss_fn = NGEBMLoss(0.5, mode='latent')
    out = loss_fn.evaluate(model, y, x, edge_index, head=model.lin)
    hidden = model.embed(x, edge_index).detach()
    norms = [
        torch.autograd.functional.jacobian(
            lambda h: free_energy(model.lin(h.unsqueeze(0)))[0], row
        ).norm()
        for row in hidden
    ]
    fit = F.cross_entropy(model(x, edge_index), y)
    expected = 0.5 * fit + 0.5 * sum(norms) / len(norms)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


class Scaled(nn.Module):
    """Its logits are not what the last linear layer returns."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x):
        return 2 * self.lin(x.tanh())


def test_closed_form_only_where_the_head_returns_the_logits():
    torch.manual_seed(0)
    model, x, y = (
        Scaled().double(),
        torch.randn(5, 4).double(),
        [0, 1, 2, 0, 1],
    )
    y = torch.tensor(y)
    loss_fn = NGEBMLoss(0.5, mode='latent')
    out = loss_fn.evaluate(model, y, x, head=model.lin)
    logits = model(x)
    norm = (2 * logits.softmax(-1) @ model.lin.weight).norm(dim=1)
    expected = 0.5 * F.cross_entropy(logits, y) + 0.5 * norm.mean()
    torch.testing.assert_close(out, expected)


def test_presets_and_plain_cross_entropy():
    model, x, edge_index, y, _ = case()
    fit, grad, spread = brute_force(
        model, x, edge_index, y, range(7), 'all', False, False
    )
    out = NGEBMLoss.paper().evaluate(model, y, x, edge_index)
    torch.testing.assert_close(out, (fit + grad) / 2)
    out = NGEBMLoss.released_code().evaluate(model, y, x, edge_index)
    torch.testing.assert_close(out, (fit + grad + spread) / 2)
    out = NGEBMLoss(0.0).evaluate(model, y, x, edge_index)
    torch.testing.assert_close(out, fit)
    with pytest.raises(TypeError, match='beta'):
        NGEBMLoss()


def test_gradients_of_parameters_equal_finite_differences():
    model, x, edge_index, y, mask = case(4)
    loss_fn = NGEBMLoss.released_code()

    def loss():
        return loss_fn.evaluate(model, y, x, edge_index, mask=mask)

    for weight in (model.conv1.lin.weight, model.lin.weight, model.lin.bias):
        (grad,) = torch.autograd.grad(loss(), weight)
        way = torch.randn_like(weight)
        with torch.no_grad():
            weight += 1e-5 * way
            up = loss()
            weight -= 2e-5 * way
            down = loss()
            weight += 1e-5 * way
        rise = float(up.detach() - down.detach()) / 2e-5
        assert float((grad * way).sum()) == pytest.approx(rise, rel=1e-5)


def test_forward_is_evaluate():
    model, x, edge_index, y, mask = case()
    loss_fn = NGEBMLoss(0.5, 0.2)
    expected = loss_fn.evaluate(model, y, x, edge_index, mask=mask)
    assert not x.requires_grad
    with second_order_paths():
        x.requires_grad_()
        out = loss_fn(model(x, edge_index), y, x, mask)
    assert torch.equal(out, expected)
    rows = mask.nonzero().view(-1)  # indices, as a mask
    assert torch.equal(loss_fn(model(x, edge_index), y, x, rows), expected)


def test_an_edge_index_of_pyg_and_no_grad():
    model, x, edge_index, y, _ = case()
    model.conv2 = pyg.GATConv(5, 4).double()
    loss_fn = NGEBMLoss(0.5)
    expected = loss_fn.evaluate(model, y, x, edge_index)
    edges = EdgeIndex(edge_index, sparse_size=(7, 7)).sort_by('col').values
    with torch.no_grad():  # validation loops
        out = loss_fn.evaluate(model, y, x, edge_index=edges)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def test_graphs_of_a_batch_are_alone():
    model, x, _, y, _ = case()
    parts = [torch.tensor([0, 4, 6]), torch.tensor([1, 2, 3, 5])]
    batch = torch.zeros(7, dtype=torch.long)
    batch[parts[1]] = 1  # not sorted
    edges = [part[random_graph(len(part), 5).edge_index] for part in parts]
    loss_fn = NGEBMLoss(0.5)
    out = loss_fn.evaluate(model, y[:2], x, torch.cat(edges, 1), batch=batch)
    singles = []
    for i, part in enumerate(parts):
        alone = random_graph(len(part), 5).edge_index
        zeros = torch.zeros(len(part), dtype=torch.long)
        singles.append(
            loss_fn.evaluate(model, y[i : i + 1], x[part], alone, batch=zeros)
        )
    torch.testing.assert_close(out, sum(singles) / 2, rtol=0, atol=1e-12)


def test_images():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten())
    model = nn.Sequential(model, nn.Linear(12, 4)).double()
    x, y = torch.randn(3, 2, 4, 4).double(), torch.tensor([0, 3, 1])
    out = NGEBMLoss(0.5).evaluate(model, y, x)
    norms = [
        torch.autograd.functional.jacobian(
            lambda image: free_energy(model(image.unsqueeze(0)))[0], image
        ).norm()
        for image in x
    ]
    expected = F.cross_entropy(model(x), y) + sum(norms) / 3
    torch.testing.assert_close(out, expected / 2, rtol=0, atol=1e-12)


def test_a_zero_gradient_gives_no_nan():
    model, x, edge_index, y, _ = case()
    with torch.no_grad():
        model.lin.weight.zero_()  # the energy is constant
    loss = NGEBMLoss(0.5).evaluate(model, y, x, edge_index)
    assert all(grad.isfinite().all() for grad in gradients(loss, model))
    grad = torch.zeros(4, 2, requires_grad=True)
    batch = torch.tensor([0, 0, 1, 1])
    norm = row_norms(grad, 2, batch)
    (slope,) = torch.autograd.grad(norm.sum(), grad)
    assert norm.tolist() == [0, 0]
    assert not slope.any()


def test_norms_of_rows_and_graphs():
    grad = torch.tensor([[3.0, 0.0], [0.0, 4.0], [5.0, 12.0]])
    assert row_norms(grad, 3).tolist() == [3, 4, 13]
    assert row_norms(grad, 1).item() == pytest.approx(194**0.5)
    out = row_norms(grad, 2, torch.tensor([1, 1, 0]))
    assert out.tolist() == [13, 5]
    assert row_norms(torch.tensor([3.0, -4.0]), 2).tolist() == [3, 4]
    with pytest.raises(ValueError, match=r'\[3, K\].*2 rows and no batch'):
        row_norms(grad, 2)


def test_a_term_that_scales_with_units_unless_it_is_told_not_to():
    model, x, edge_index, y, _ = case()

    def term(scale, feature_scale):
        loss_fn = NGEBMLoss(0.5, feature_scale=feature_scale)
        scaled = pyg.Sequential(
            'x, edge_index',
            [(lambda x: x / scale, 'x -> x'), (model, 'x, edge_index -> x')],
        )
        out = loss_fn.evaluate(scaled, y, scale * x, edge_index)
        fit = F.cross_entropy(model(x, edge_index), y)
        return float((2 * out - fit).detach())

    assert term(0.1, None) == pytest.approx(10 * term(1.0, None))
    assert term(0.1, 'std') == pytest.approx(term(1.0, 'std'))


@pytest.mark.parametrize(
    ('options', 'match'),
    [
        ({'beta': 1.0}, r'beta in \[0, 1\)'),
        ({'beta': -0.1}, r'beta in \[0, 1\)'),
        ({'beta': 0.5, 'variance': -1.0}, 'variance >= 0'),
        ({'beta': 0.5, 'mode': 'hidden'}, "'mode' of"),
        ({'beta': 0.5, 'on': 'some'}, "'on' of"),
        ({'beta': 0.5, 'feature_scale': 'max'}, "'feature_scale' of"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        NGEBMLoss(**options)


def test_bad_inputs():
    model, x, edge_index, y, _ = case()
    loss_fn = NGEBMLoss(0.5)
    logits = model(x, edge_index)
    with pytest.raises(ValueError, match='requires_grad'):
        loss_fn(logits, y, x)
    with pytest.raises(ValueError, match='requires_grad'):
        loss_fn(logits.detach(), y, x.clone().requires_grad_())
    with pytest.raises(ValueError, match='requires_grad'):  # another tensor
        loss_fn(logits, y, x.clone().requires_grad_())
    with pytest.raises(ValueError, match='log-probabilities'):
        loss_fn(logits.log_softmax(-1), y, x)
    with pytest.raises(ValueError, match='labelled rows'):
        loss_fn(logits, y, x, torch.zeros(7, dtype=torch.bool))
    with pytest.raises(ValueError, match="'head' in mode 'latent' only"):
        loss_fn.evaluate(model, y, x, edge_index, head=model.lin)
    with pytest.raises(ValueError, match='floating-point'):
        loss_fn.evaluate(model, y, x.long(), edge_index)
    latent = NGEBMLoss(0.5, mode='latent')
    with pytest.raises(ValueError, match=r'model\.lin'):
        latent.evaluate(model, y, x, edge_index)
    with pytest.raises(ValueError, match='reads edges'):
        latent.evaluate(model, y, x, edge_index, head=model.conv1)
    with pytest.raises(ValueError, match='ran 0 times'):
        latent.evaluate(model, y, x, edge_index, head=nn.Linear(4, 3))
    with pytest.raises(ValueError, match='each of the 7 rows'):
        latent(logits, y, x[:3])
