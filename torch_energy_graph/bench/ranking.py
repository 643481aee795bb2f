r"""Mean ranks of models over several tables, and when they differ.

After Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets"
(JMLR 7, 2006): two of k models differ over n tables at the 5 % level
(Nemenyi) if their mean ranks differ by at least

.. math::
    \mathrm{CD} = q_{0.05} \sqrt{\frac{k (k + 1)}{6 n}},

:math:`q` the studentised range over :math:`\sqrt 2`. A table (data set and
protocol) counts once, however many splits it has.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, studentized_range

from torch_energy_graph.bench.compare import by_split
from torch_energy_graph.bench.goal import ANOMALIES
from torch_energy_graph.bench.protocol import goal_of
from torch_energy_graph.bench.store import Pair

__all__ = ['Ranking', 'critical_difference', 'rank']


@dataclass(frozen=True)
class Ranking:
    """Mean ranks (1 is best) of the models that every table has.

    Attributes:
        ranks: Mean rank by model, best first.
        tables: Number of tables.
        omitted: Models that some table lacks.
        measure: What the means are of.
    """

    ranks: dict[str, float]
    tables: int
    omitted: list[str]
    measure: str = ANOMALIES.titles[ANOMALIES.metric]

    @property
    def critical(self) -> float:
        """The critical difference of mean ranks."""
        return critical_difference(len(self.ranks), self.tables)

    def groups(self) -> list[tuple[str, str]]:
        """Return first and last model of each group without a difference."""
        names, groups = list(self.ranks), []
        last_end = 0
        for start, name in enumerate(names):
            end = max(
                i
                for i, other in enumerate(names)
                if self.ranks[other] - self.ranks[name] < self.critical
            )
            if end > max(start, last_end):
                groups.append((name, names[end]))
                last_end = end
        return groups

    def text(self) -> str:
        """Return the ranks in Markdown."""
        ranks = ', '.join(f'{m} {r:.2f}' for m, r in self.ranks.items())
        text = (
            f'## Ranks\n\nMean rank by mean test {self.measure} over '
            f'{self.tables} tables: {ranks}. Critical difference (Nemenyi, '
            f'5 %): {self.critical:.2f}.'
        )
        if self.omitted:
            text += f' Not in every table: {", ".join(self.omitted)}.'
        return text


def critical_difference(models: int, tables: int) -> float:
    """Return the least difference of mean ranks that counts."""
    q = studentized_range.ppf(0.95, models, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(models * (models + 1) / (6 * tables)))


def rank(tables: Sequence[Sequence[Pair]]) -> Ranking | None:
    """Rank models by the mean of the measure that chooses in each table.

    Returns:
        Ranking or None: :obj:`None` with fewer than two tables or models.
    """
    goals = [goal_of(table[0][0].protocol) for table in tables]
    means = [
        {
            model: statistics.fmean(values.values())
            for model, values in by_split(table, goal.metric).items()
        }
        for table, goal in zip(tables, goals, strict=True)
    ]
    if len(means) < 2:
        return None
    everywhere = [m for m in means[0] if all(m in table for table in means)]
    if len(everywhere) < 2:
        return None
    ranks = np.mean(
        [rankdata([-table[m] for m in everywhere]) for table in means], axis=0
    )
    found = dict(zip(everywhere, ranks.tolist(), strict=True))
    some = dict.fromkeys(model for table in means for model in table)
    return Ranking(
        dict(sorted(found.items(), key=lambda item: item[1])),
        len(means),
        [model for model in some if model not in found],
        ' or '.join(dict.fromkeys(g.titles[g.metric] for g in goals)),
    )
