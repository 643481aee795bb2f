"""Paired differences of models, with intervals."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from torch_energy_graph.bench.protocol import goal_of
from torch_energy_graph.bench.store import Pair
from torch_energy_graph.bench.tabular import TREES

__all__ = ['Difference', 'by_split', 'difference', 'differences_text']

CONFIDENCE = 0.95
REFERENCES = {
    'anomalies': (TREES, 'tree'),
    'classes': (('gcn_cls', 'gcn_tuned'), 'GCN'),
}
Scores = dict[str, dict[int, float]]


@dataclass(frozen=True)
class Difference:
    """A mean difference over n splits and its interval, if n > 1."""

    mean: float
    interval: tuple[float, float] | None
    n: int


def by_split(pairs: Sequence[Pair], metric: str = 'auprc') -> Scores:
    """Return a test metric by model and split, the mean over seeds."""
    found: dict[str, dict[int, list[float]]] = {}
    for unit, row in pairs:
        value = row['test'][metric] if row and row['status'] == 'ok' else None
        if value is not None:
            splits = found.setdefault(unit.model, {})
            splits.setdefault(unit.split, []).append(value)
    return {
        model: {split: statistics.fmean(v) for split, v in splits.items()}
        for model, splits in found.items()
    }


def difference(
    first: Mapping[int, float], second: Mapping[int, float]
) -> Difference | None:
    r"""Return first minus second on the splits that both have.

    The interval is Student's for the mean of n differences,
    :math:`\bar d \pm t_{0.975, n - 1}\, s / \sqrt n`.
    """
    deltas = [
        first[split] - second[split] for split in first if split in second
    ]
    if not deltas:
        return None
    n, mean = len(deltas), statistics.fmean(deltas)
    if n == 1:
        return Difference(mean, None, 1)
    factor = float(student.ppf((1 + CONFIDENCE) / 2, n - 1))
    half = factor * statistics.stdev(deltas) / n**0.5
    return Difference(mean, (mean - half, mean + half), n)


def differences_text(pairs: Sequence[Pair]) -> str:
    """Return the table of differences to the strongest reference, if any.

    References are trees for anomalies, and GCNs for classes.
    """
    goal = goal_of(pairs[0][0].protocol)
    scores = by_split(pairs, goal.metric)
    references, kind = REFERENCES[goal.name]
    means = {
        model: statistics.fmean(scores[model].values())
        for model in references
        if model in scores
    }
    if not means or len(scores) < 2:
        return ''
    strongest = max(means, key=lambda model: means[model])
    title = goal.titles[goal.metric]
    lines = [
        f'{title[0].upper()}{title[1:]} minus that of `{strongest}`, the '
        f'{kind} with the best mean on test nodes, paired by split:',
        '',
        '| model | difference | 95 % interval | splits |',
        '| --- | ---: | ---: | ---: |',
    ]
    for model, values in scores.items():
        found = difference(values, scores[strongest])
        if model == strongest or found is None:
            continue
        interval = '-'
        if found.interval is not None:
            interval = '{:+.3f} to {:+.3f}'.format(*found.interval)
        lines.append(
            f'| {model} | {found.mean:+.3f} | {interval} | {found.n} |'
        )
    return '\n'.join(lines)
