"""Times of Hopfield pooling and of a padded form, or the memory of one."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from _jobs import serve
from _measure import Side, rows_of, versions
from _peers import OURS, our_backends
from et_memory import status_mib
from torch import Tensor

from torch_geometric.utils import to_dense_batch

from torch_energy_graph.nn.aggr import HopfieldAggregation
from torch_energy_graph.ops import use_backend

SIZES = {'uniform': [200] * 64, 'skewed': [20] * 63 + [20_000]}
SMALL = {'uniform': [20] * 6, 'skewed': [3] * 5 + [200]}


@dataclass
class Problem:
    """Elements of bags in order, a layer, and weights of a loss."""

    x: Tensor  # [N, C]
    index: Tensor  # [N]
    sizes: list[int]
    layer: HopfieldAggregation
    weight: Tensor  # [B, C]

    @classmethod
    def draw(cls, sizes, channels, heads, steps):
        torch.manual_seed(0)
        count = torch.tensor(sizes)
        index = torch.arange(len(sizes)).repeat_interleave(count)
        x = torch.randn(index.size(0), channels, requires_grad=True)
        layer = HopfieldAggregation(channels, heads=heads, steps=steps)
        return cls(x, index, sizes, layer, torch.randn(len(sizes), channels))

    def side(self, forward, **kwargs):
        inputs = [self.x]
        for name, weight in self.layer.named_parameters():
            # a constant of all keys does not change what is read
            if not name.endswith('_stored.bias'):
                inputs.append(weight)
        return Side(
            lambda: (forward(),), tuple(inputs), (self.weight,), **kwargs
        )


def dense_side(problem):
    """Bags padded to the largest; equal ones are only viewed as a batch."""
    layer, num_bags = problem.layer, len(problem.sizes)
    even = min(problem.sizes) == max(problem.sizes)

    def forward():
        if even:
            bags, mask = problem.x.view(num_bags, problem.sizes[0], -1), None
        else:
            bags, mask = to_dense_batch(problem.x, problem.index)
        return dense_pooling(layer, bags, mask)

    return problem.side(forward)


def dense_pooling(layer, bags, mask):
    """The layer on [B, M, C], where the mask names the elements."""
    maps, beta = layer.maps, layer.maps.beta()

    def headed(lin, norm):  # [B, H, M, d]
        flat = lin(norm(bags))
        return flat.unflatten(-1, (layer.heads, -1)).transpose(1, 2)

    keys = headed(maps.lin_stored, maps.norm_stored)
    values = headed(maps.lin_value, maps.norm_value)
    state = maps.states(layer.states).transpose(0, 1)  # [H, S, d]
    for step in range(layer.steps):
        scores = beta * (state @ keys.mT)  # [B, H, S, M]
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
        weights = scores.softmax(-1)
        if step + 1 < layer.steps:
            state = weights @ keys
    return maps.out((weights @ values).transpose(1, 2)).flatten(1)


def our_side(backend, problem):
    def forward():
        return problem.layer(
            problem.x, problem.index, dim_size=len(problem.sizes)
        )

    return problem.side(forward, context=partial(use_backend, backend))


def all_methods():
    methods = {'padded dense': dense_side}
    for backend in our_backends('cpu'):
        methods[OURS + backend] = partial(our_side, backend)
    return methods


def train_on_huge_bags(job):
    """Peak of resident memory over training steps, and their losses."""
    channels, num_bags, size = job['channels'], job['bags'], job['size']
    torch.manual_seed(0)
    before = status_mib('VmRSS')
    x = torch.randn(num_bags * size, channels)
    ptr = torch.arange(num_bags + 1) * size
    target = torch.arange(num_bags).remainder(2).float()
    pool = HopfieldAggregation(
        channels, heads=job['heads'], top_k=job['top_k']
    )
    model = torch.nn.ModuleList([pool, torch.nn.Linear(channels, 1)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    Path('/proc/self/clear_refs').write_text('5')  # resets VmHWM
    losses, start = [], time.perf_counter()
    for _ in range(job['train_steps']):
        optimizer.zero_grad()
        logits = model[1](pool(x, ptr=ptr)).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(logits, target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return {
        'num_bags': num_bags,
        'size': size,
        'channels': channels,
        'heads': job['heads'],
        'top_k': job['top_k'],
        'threads': job['threads'],
        'elements_mib': x.numel() * x.element_size() / 2**20,
        'peak_mib': status_mib('VmHWM') - before,
        'step_s': (time.perf_counter() - start) / job['train_steps'],
        'first_loss': losses[0],
        'last_loss': losses[-1],
        **versions(),
    }


def work(job):
    torch.set_num_threads(job['threads'])
    if job['task'] == 'huge':
        yield train_on_huge_bags(job)
        return
    sizes = (SMALL if job['small'] else SIZES)[job['bags']]
    shape = (job['channels'], job['heads'], job['steps'])
    problem = Problem.draw(sizes, *shape)
    facts = {
        'bags': job['bags'],
        'num_bags': len(sizes),
        'elements': sum(sizes),
        'channels': job['channels'],
        'heads': job['heads'],
        'steps': job['steps'],
    }
    yield from rows_of(job, problem, all_methods(), facts)


if __name__ == '__main__':
    serve(work)
