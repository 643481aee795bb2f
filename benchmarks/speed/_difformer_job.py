"""Times of all sides of one DIFFormer layer, or the memory of one."""

import torch
from _difformer_peers import Problem, all_methods, released_form
from _jobs import serve
from _measure import difference, rows_of
from torch import Tensor

SAME_FUNCTION = ('released form', 'teg global', 'teg global, COO')


def exact(problem):
    """Output and gradients of the released form in float64."""
    weights = [
        weight.detach().double().requires_grad_()
        for weight in problem.layer().parameters()
    ]
    x = problem.x.detach().double().requires_grad_()
    out = released_form(x, weights, problem.heads, problem.edge_index)
    grads = torch.autograd.grad(out, [x, *weights], problem.weight.double())
    return [out.detach(), *grads]


def errors(problem, methods, right):
    """Largest error of the sides that compute the same, by name."""
    out = {}
    for name in SAME_FUNCTION:
        if name in methods:
            side = all_methods()[name](problem)
            values: list[Tensor] = [*side.value(), *side.gradients()]
            out[name] = difference([v.double() for v in values], right)
    return out


def work(job):
    torch.set_num_threads(job['threads'])
    problem = Problem.draw(
        job['nodes'], job['channels'], job['heads'], job['degree']
    )
    edges = problem.edge_index
    facts = {
        'nodes': job['nodes'],
        'edges': 0 if edges is None else edges.size(1),
        'heads': job['heads'],
        'channels': job['channels'],
        'dtype': 'fp32',
    }
    rows = list(rows_of(job, problem, all_methods(), facts))
    if job['task'] == 'time':
        ran = [row['method'] for row in rows if row['note'] is None]
        found = errors(problem, ran, exact(problem))
        for row in rows:
            row['error'] = found.get(row['method'])
            # our own error counts, not how far the released form is off
            ours = row['method'].startswith('teg')
            row['difference'] = row['error'] if ours else None
    yield from rows


if __name__ == '__main__':
    serve(work)
