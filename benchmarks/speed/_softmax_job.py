"""Times of all softmaxes of one layout, or the memory of one."""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from _graphs import load_edges
from _jobs import serve
from _measure import Missing, Side, rows_of
from _peers import OURS, need, our_backends
from torch import Tensor

from torch_geometric.utils import softmax

from torch_energy_graph.ops import scatter_softmax, use_backend


@dataclass
class Problem:
    """Scores of edges, in the order of a layout."""

    src: Tensor  # [E, H]
    index: Tensor  # [E]
    ptr: Tensor | None  # [N + 1]
    num_nodes: int
    weight: Tensor  # [E, H]

    @classmethod
    def draw(cls, edge_index, num_nodes, heads, layout):
        torch.manual_seed(0)
        index, ptr = edge_index[1], None
        src, weight = torch.randn(2, index.size(0), heads)
        if layout == 'unsorted':
            index = index[torch.randperm(index.size(0))]
        elif layout == 'ptr':
            bounds = torch.arange(num_nodes + 1)
            ptr = torch.searchsorted(index, bounds)
        src.requires_grad_()
        return cls(src, index, ptr, num_nodes, weight)

    def side(self, formula, context=nullcontext):
        return Side(
            lambda: (formula(self.src),), (self.src,), (self.weight,), context
        )

    @property
    def groups(self):
        """Keywords of PyG's softmax and ours."""
        if self.ptr is not None:
            return {'ptr': self.ptr}
        return {'index': self.index, 'num_nodes': self.num_nodes}


def pyg_side(problem):
    return problem.side(partial(softmax, **problem.groups))


def scatter_side(problem):
    need('torch_scatter')
    import torch_scatter

    if problem.ptr is not None:
        raise Missing('torch-scatter has no softmax with ptr')
    index, size = problem.index, problem.num_nodes
    return problem.side(
        partial(
            torch_scatter.scatter_softmax, index=index, dim=0, dim_size=size
        )
    )


def our_side(backend, problem):
    return problem.side(
        partial(scatter_softmax, **problem.groups),
        partial(use_backend, backend),
    )


def all_methods():
    methods = {'pyg softmax': pyg_side, 'torch-scatter': scatter_side}
    for backend in our_backends('cpu'):
        methods[OURS + backend] = partial(our_side, backend)
    return methods


def work(job):
    torch.set_num_threads(job['threads'])
    edge_index, num_nodes = load_edges(job['graph'])
    shape = (job['heads'], job['layout'])
    problem = Problem.draw(edge_index, num_nodes, *shape)
    facts = {
        'graph': job['graph'],
        'nodes': num_nodes,
        'edges': edge_index.size(1),
        'heads': job['heads'],
        'layout': job['layout'],
    }
    yield from rows_of(job, problem, all_methods(), facts)


if __name__ == '__main__':
    serve(work)
