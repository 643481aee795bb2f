"""One training step of a classifier under several losses."""

from functools import partial

import torch
import torch.nn.functional as F
from _jobs import serve
from _measure import alternate, versions
from tqdm import tqdm

from torch_geometric.nn import GCN

from torch_energy_graph.ood import JEMLoss, NGEBMLoss, SGLDSampler

NODES = {'gcn': (5_000, 64, 50_000, 10), 'cora': (2_708, 1_433, 10_858, 7)}
SMALL = {'gcn': (50, 8, 200, 3), 'cora': (40, 20, 100, 3)}
CROSS_ENTROPY, NG_EBM = 'cross-entropy', 'NG-EBM'
LATENT, JEM = 'NG-EBM latent', 'JEM'


def graph(size, with_head):
    """A two-layer GCN, or one with a linear head, and what it takes."""
    nodes, features, edges, classes = size
    inputs = torch.randn(nodes, features), torch.randint(nodes, (2, edges))
    jk = 'last' if with_head else None
    model = GCN(features, 64, 2, classes, jk=jk)
    return model, inputs, torch.randint(classes, (nodes,))


def images(small):
    from torch_energy_graph.nn.models.wide_resnet import WideResNet

    batch, side = (2, 8) if small else (8, 32)
    inputs = (torch.rand(batch, 3, side, side),)
    return WideResNet(3, 10), inputs, torch.randint(10, (batch,))


def build(job):
    if job['case'] == 'wrn':
        return images(job['small'])
    name, _, head = job['case'].partition('+')
    sizes = SMALL if job['small'] else NODES
    return graph(sizes[name], head == 'head')


def losses_of(model, inputs, y, num_steps):
    """Functions without arguments that return a loss, by name."""
    ng_ebm, both = NGEBMLoss.paper(), NGEBMLoss.released_code()
    x = inputs[0]
    sampler = SGLDSampler(x.shape[1:], num_steps, buffer_size=len(x))
    jem = JEMLoss(sampler)
    calls = {
        CROSS_ENTROPY: lambda: F.cross_entropy(model(*inputs), y),
        NG_EBM: partial(ng_ebm.evaluate, model, y, *inputs),
        'NG-EBM + variance': partial(both.evaluate, model, y, *inputs),
        JEM: partial(jem.evaluate, model, y, *inputs),
    }
    head = getattr(model, 'lin', None) or getattr(model, 'head', None)
    if head is not None:
        latent = NGEBMLoss.paper(mode='latent')
        calls[LATENT] = partial(latent.evaluate, model, y, *inputs, head=head)
    return calls


def step(model, optimizer, loss_fn):
    optimizer.zero_grad()
    loss = loss_fn()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def work(job):
    torch.set_num_threads(job['threads'])
    torch.manual_seed(0)
    model, inputs, y = build(job)
    # steps so small that all losses see the same model throughout
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-7)
    calls = {
        name: partial(step, model, optimizer, loss_fn)
        for name, loss_fn in losses_of(
            model, inputs, y, job['jem_steps']
        ).items()
    }
    warm = tqdm(calls.items(), desc='first steps', disable=None, leave=False)
    values = {name: call() for name, call in warm}
    medians = alternate(calls, job['repeats'])
    base = medians[CROSS_ENTROPY]
    at = 0 if job['threads'] == 1 else 1  # CPU, or wall if threaded
    for name, times in medians.items():
        yield {
            'case': job['case'],
            'rows': len(inputs[0]),
            'features': inputs[0][0].numel(),
            'edges': inputs[1].size(1) if len(inputs) > 1 else 0,
            'parameters': sum(p.numel() for p in model.parameters()),
            'threads': job['threads'],
            'repeats': job['repeats'],
            'method': name,
            'step_cpu_s': times[0],
            'step_wall_s': times[1],
            'ratio': times[at] / base[at],
            'jem_steps': job['jem_steps'],
            'loss': values[name],
            **versions(),
        }


if __name__ == '__main__':
    serve(work)
