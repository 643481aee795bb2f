"""Times of all sides of energy attention, or the memory of one."""

import torch
from _ceiling import gather_ceiling
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
    table = problem.q.detach().flatten(1)
    ceiling = gather_ceiling(table, problem.graph.col)
    yield from rows_of(job, problem, methods, facts, ceiling)


if __name__ == '__main__':
    serve(work)
