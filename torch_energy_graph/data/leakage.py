"""Does a single column, an id or the order of rows tell the label?

The area under the ROC curve of one column alone, for numbers in the better
direction, for categories by their share of anomalies among *other* nodes, so
that a column of unique texts tells nothing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import TargetEncoder

from torch_energy_graph.data.tables.kinds import Kind
from torch_energy_graph.metrics import auroc

__all__ = ['column_auroc', 'id_aurocs', 'row_order_auroc']

_FOLDS = 5
Labels = NDArray[np.int64]


def column_auroc(values: NDArray[Any], kind: Kind, y: Labels) -> float | None:
    r"""How well one column tells anomalies, from 0.5 to 1.

    Args:
        values (ndarray): Parsed cells, :math:`[N]`, of all labelled nodes.
        kind (str): 'number', 'time' or 'category'.
        y (ndarray): Labels 0 or 1, :math:`[N]`.

    Returns:
        float: Of the values, or of the gaps among them if these tell more;
        :obj:`None` with fewer than five nodes of a class, where any column
        may tell them by chance.
    """
    if min((y == 0).sum(), (y == 1).sum()) < _FOLDS:
        return None
    if kind == 'category':
        return _of_categories(values, y)
    absent = np.isnan(values)
    middle = 0.0 if absent.all() else float(np.median(values[~absent]))
    filled = np.where(absent, middle, values)
    return max(_either_way(filled, y), _either_way(absent, y))


def id_aurocs(ids: list[Any], y: Labels) -> dict[str, float | None]:
    r"""What ids tell: by their number, their length and what is before it.

    Args:
        ids (list): Ids of all labelled nodes.
        y (ndarray): Labels 0 or 1, :math:`[N]`.
    """
    words = [str(i) for i in ids]
    parts: dict[str, tuple[Kind, Callable[[str], Any]]] = {
        'number': ('number', _digits),
        'length': ('number', len),
        'prefix': ('category', lambda word: word.rstrip('0123456789')),
    }
    found = {}
    for name, (kind, part) in parts.items():
        dtype = object if kind == 'category' else np.float64
        values = np.array([part(word) for word in words], dtype=dtype)
        found[name] = column_auroc(values, kind, y)
    return found


def row_order_auroc(rows: NDArray[np.int64], y: Labels) -> float | None:
    """What the position of a row tells; :obj:`None` if it may be chance."""
    area = column_auroc(rows.astype(np.float64), 'number', y)
    if area is None:
        return None
    # standard deviation of the AUROC of a random order (Mann and Whitney)
    normal, anomalous = (y == 0).sum(), (y == 1).sum()
    spread = np.sqrt((len(y) + 1) / (12 * normal * anomalous))
    return area if area > 0.5 + 4 * spread else None


def _digits(word: str) -> float:
    digits = ''.join(c for c in word if c.isdecimal())
    return float(digits[:300] or 'nan')  # longer ones are infinite


def _either_way(score: NDArray[Any], y: Labels) -> float:
    area = auroc(y, score)
    return 0.5 if area is None else max(area, 1 - area)


def _of_categories(values: NDArray[Any], y: Labels) -> float:
    share = np.empty(len(y))
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    column = values.reshape(-1, 1)
    for others, these in folds.split(column, y):
        encoder = TargetEncoder(target_type='binary')
        encoder.fit(column[others], y[others])
        share[these] = encoder.transform(column[these]).ravel()
    area = auroc(y, share)
    return 0.5 if area is None else max(area, 0.5)
