"""A declared tuning budget: which settings of a model are tried."""

import dataclasses
import itertools
import math
import random
from typing import Any

from torch_energy_graph.bench.coerce import ConfigError

__all__ = ['MAX_BUDGET', 'Search', 'Tuning', 'candidates']

MAX_BUDGET = 20


@dataclasses.dataclass(frozen=True)
class Search:
    """How the parameters of one model are chosen.

    Args:
        grid (dict[str, tuple]): Values to try, by parameter.
        budget (int): Number of settings to try, the given one included.
        seed (int): Seed of the draw.
        during (dict[str, Any]): Parameters that hold in tries only.
    """

    grid: dict[str, tuple[Any, ...]]
    budget: int
    seed: int
    during: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Tuning:
    """Tuning of a benchmark, the same budget for every model.

    Settings are fitted on split 0 of each dataset and protocol, and the one
    with the best validation AUPRC runs on all splits.

    Args:
        grids (dict): By model and parameter, the values to try.
        budget (int, optional): At most 20. (default: :obj:`20`)
        seed (int, optional): Seed of the draw from a grid that is larger than
            the budget. (default: :obj:`0`)
        during (dict, optional): By model, parameters that hold while tuning
            only, such as ``ensemble: 1``. (default: :obj:`None`)
    """

    grids: dict[str, dict[str, tuple[Any, ...]]]
    budget: int = MAX_BUDGET
    seed: int = 0
    during: dict[str, dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.budget <= MAX_BUDGET:
            raise ConfigError(
                f"'budget': expected 1 to {MAX_BUDGET} settings (got "
                f'{self.budget})'
            )
        for model, grid in self.grids.items():
            for key, values in grid.items():
                if not values:
                    raise ConfigError(
                        f"'{model}.{key}': expected at least one value"
                    )


def candidates(params: dict[str, Any], search: Search) -> list[dict[str, Any]]:
    """Return the settings to try: the given one first, then of the grid.

    A grid larger than the budget is sampled without replacement.
    """
    grid = search.grid
    total = math.prod(len(values) for values in grid.values())
    points = range(total)
    chosen = list(points)
    if total > search.budget:
        chosen = random.Random(search.seed).sample(points, search.budget)
    combinations = list(itertools.product(*grid.values()))
    tried = [params]
    for index in chosen:
        values = zip(grid, combinations[index], strict=True)
        setting = {**params, **dict(values)}
        if setting not in tried:
            tried.append(setting)
    return tried[: search.budget]
