"""Labels of a node table: 0 normal, 1 anomalous, -1 unknown."""

import numpy as np
from numpy.typing import NDArray

from torch_energy_graph.data.tables.cells import texts
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.table import Table

__all__ = ['read_labels']

_PLAIN = {'0': 0, '1': 1, 'false': 0, 'true': 1}


def read_labels(
    table: Table, layout: TableLayout
) -> tuple[NDArray[np.int64], list[str]]:
    r"""Labels :math:`[N]`, and in words how they were read.

    Raises:
        ValueError: If the column is absent, or a label has no meaning.
    """
    column = layout.label
    if column is None or (
        column not in table.columns and layout.optional('label')
    ):
        return np.full(len(table), -1), []
    cells = texts(table.need(column, 'label'))
    words, codes = np.unique(cells.astype(str), return_inverse=True)
    meaning = np.array([_meaning(w, layout) for w in words], np.int64)
    y = meaning[codes] if len(words) else codes.astype(np.int64)
    wrong = np.flatnonzero(y == _WITHOUT_MEANING)
    if wrong.size:
        raise ValueError(
            f'{table.at(wrong[0], column)}: expected a label 0, 1, -1 or an '
            f"empty cell (got '{cells[wrong[0]]}'); name the label of "
            f"anomalies with TableLayout(positive='...')"
        )
    return y, _notes(column, words, meaning, layout)


_WITHOUT_MEANING = -2


def _meaning(word: str, layout: TableLayout) -> int:
    if layout.positive is not None and word == layout.positive:
        return 1
    if word in layout.unknown or word in ('', '-1'):
        return -1
    if layout.positive is not None:
        return 0
    return _PLAIN.get(word.lower(), _WITHOUT_MEANING)


def _notes(
    column: str,
    words: NDArray[np.str_],
    meaning: NDArray[np.int64],
    layout: TableLayout,
) -> list[str]:
    if layout.positive is None:
        return []
    normal = ', '.join(f"'{w}'" for w in words[meaning == 0][:5])
    note = (
        f"label '{column}': '{layout.positive}' is 1, {normal or 'nothing'} "
        f'is 0; what means unknown belongs in TableLayout(unknown=...)'
    )
    if not (meaning == 1).any():
        note = f"{note}; no row has '{layout.positive}'"
    return [note]
