"""Sides of a comparison: alternating times, peak memory, agreement."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from et_memory import status_mib
from torch import Tensor
from tqdm import tqdm

from torch_energy_graph.bench.measure import environment
from torch_energy_graph.ops import release_freed_memory

PARTS = ('forward', 'train')


class Missing(Exception):
    """A side that cannot run here, and why."""


@dataclass
class Side:
    """One way to compute.

    The loss of the backward pass is the sum of the outputs times fixed
    weights, which have the shapes of the outputs.
    """

    forward: Callable[[], tuple[Tensor, ...]]
    inputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    context: Callable[[], AbstractContextManager] = nullcontext
    same_function: bool = True

    def value(self):
        with torch.no_grad(), self.context():
            return self.forward()

    def gradients(self):
        with self.context():
            pairs = zip(self.forward(), self.weights, strict=True)
            loss = sum((out * weight).sum() for out, weight in pairs)
            return torch.autograd.grad(loss, self.inputs)


def rows_of(job, problem, methods, facts, ceiling=None):
    """Rows of a job: times of all methods, or memory of one.

    Args:
        job (dict): Its task, methods (all, if None), those to leave out, and
            the number of rounds.
        problem: What the builders of sides take.
        methods (dict): Builder of a side by name; the first side is what the
            others have to agree with.
        facts (dict): First columns of every row.
        ceiling (callable, optional): Another call that takes turns.
    """
    names = job['methods'] or list(methods)
    names = [name for name in names if name not in job['without']]
    unknown = set(names) - set(methods)
    if unknown:
        raise SystemExit(f'no method {unknown}; there are {list(methods)}')
    sides, missing = _build(methods, problem, names)
    if names[0] in missing:
        raise SystemExit(f'{names[0]} comes first: {missing[names[0]]}')
    if job['task'] == 'memory':
        for name, side in sides.items():
            yield {'method': name, **peaks(side)}
        return
    facts |= {'threads': job['threads'], 'repeats': job['repeats']}
    rows = time_sides(sides, job['repeats'], ceiling)
    empty = dict.fromkeys(next(iter(rows.values())))
    known = versions()
    for name in names:
        row = {**rows.get(name, empty), 'note': missing.get(name)}
        yield {**facts, 'method': name, **row, **known}


def versions():
    """Columns that say what was measured."""
    known = environment()
    return {'torch': known['versions']['torch'], 'git': known['git']}


def _build(methods, problem, names):
    sides, missing = {}, {}
    for name in names:
        try:
            sides[name] = methods[name](problem)
        except Missing as reason:
            missing[name] = str(reason)
    return sides, missing


def alternate(calls, repeats):
    """Medians (CPU seconds, wall seconds) of calls that take turns."""
    times = {name: [] for name in calls}
    for _ in tqdm(range(repeats), disable=None, leave=False):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            times[name].append((cpu, wall))
    return {
        name: tuple(map(statistics.median, zip(*pairs, strict=True)))
        for name, pairs in times.items()
    }


def time_sides(sides, repeats, ceiling=None):
    """Rows of times and differences by name; all calls take turns."""
    expected, differences = None, {}
    for name, side in sides.items():  # also warms up
        out = [*side.value(), *side.gradients()]
        expected = out if expected is None else expected
        same = side.same_function
        differences[name] = difference(out, expected) if same else None
    calls = {} if ceiling is None else {'ceiling': ceiling}
    for name, side in sides.items():
        calls[name, 'forward'] = side.value
        calls[name, 'train'] = side.gradients
    medians = alternate(calls, repeats)
    top = None if ceiling is None else medians['ceiling'][0]
    rows = {}
    for name in sides:
        row = rows[name] = {'difference': differences[name]}
        for part in PARTS:
            cpu, wall = medians[name, part]
            row |= {f'{part}_cpu_s': cpu, f'{part}_wall_s': wall}
        row['ceiling_cpu_s'] = None if differences[name] is None else top
    return rows


def difference(out, expected):
    """Largest difference of tensors relative to the largest values."""
    worst = 0.0
    for a, b in zip(out, expected, strict=True):
        scale = b.abs().max().clamp(min=torch.finfo(b.dtype).tiny)
        worst = max(worst, float((a - b).abs().max() / scale))
    return worst


def peak_rss_mib(call):
    """Peak resident MiB during a call above what was there before."""
    release_freed_memory(torch.device('cpu'))
    before = status_mib('VmRSS')
    Path('/proc/self/clear_refs').write_text('5')  # resets VmHWM
    call()
    return status_mib('VmHWM') - before


def peaks(side):
    """Peaks of both passes, in MiB.

    Both run once before, so that libraries are loaded and code is compiled.
    """
    side.value()
    side.gradients()
    return {
        'peak_forward_mib': peak_rss_mib(side.value),
        'peak_train_mib': peak_rss_mib(side.gradients),
    }
