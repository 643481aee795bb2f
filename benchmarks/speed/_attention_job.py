"""Times of all sides of energy attention, or the memory of one."""

import torch
from _graphs import load_edges
from _jobs import serve
from _measure import rows_of
from _peers import Problem, all_methods


def work(job):
    torch.set_num_threads(job['threads'])
    methods = all_methods()
    edge_index, num_nodes = load_edges(job['graph'])
    shape = (job['heads'], job['channels'])
    problem = Problem.draw(edge_index, num_nodes, *shape)
    facts = {
        'graph': job['graph'],
        'nodes': num_nodes,
        'edges': edge_index.size(1),
        'heads': job['heads'],
        'channels': job['channels'],
        'dtype': 'fp32',
    }
    ceiling = ceiling_call(problem)
    yield from rows_of(job, problem, methods, facts, ceiling)


def ceiling_call(problem):
    """Sums random rows [H * Y] with one thread: what a core can gather."""
    native = torch.ops.torch_energy_graph_native
    if not hasattr(native, 'gather_ceiling'):
        return None
    table = problem.q.detach().flatten(1)
    index = torch.randint_like(problem.graph.col, table.size(0))
    return lambda: native.gather_ceiling(table, index)


if __name__ == '__main__':
    serve(work)
