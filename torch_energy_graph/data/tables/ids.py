"""Node ids: from text or numbers to positions, and back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torch_energy_graph.data.tables.cells import id_texts
from torch_energy_graph.data.tables.table import Table, require_pandas

__all__ = ['id_keys', 'original_ids', 'unique_nodes']

Keys = NDArray[np.object_]

_EXACT = 2**53  # floats beyond it have lost the last digits of an id


def id_keys(table: Table, column: str, field: str) -> Keys:
    r"""The ids of a column as text, :math:`[N]`; none of them is empty."""
    series = table.need(column, field)
    keys = id_texts(series)
    empty = np.flatnonzero(keys == '')
    if empty.size:
        raise ValueError(
            f'{table.at(empty[0], column)}: the id is missing ('
            f'{_rows(empty.size)}); fill it in or delete the row'
        )
    if series.dtype.kind == 'f':
        _check_floats(table, column)
    return keys


def original_ids(series: Any, keys: Keys) -> list[Any]:
    """Whole numbers for columns of numbers, text for all others."""
    if series.dtype.kind in 'iuf':
        return [int(key) for key in keys]
    return list(keys)


def unique_nodes(
    table: Table, column: str, keys: Keys
) -> tuple[Table, Keys, int]:
    """Merge rows that are equal in every cell.

    Returns:
        tuple: The rows that are left, their ids, and how many were merged.

    Raises:
        ValueError: If two rows of one id differ.
    """
    index = require_pandas().Index(keys)
    twice = np.flatnonzero(index.duplicated(keep=False))
    if not twice.size:
        return table, keys, 0
    rows = table.take(twice).frame.assign(**{column: keys[twice]})
    differ = ~rows.duplicated(keep='first').to_numpy()
    seen = rows[column].duplicated(keep='first').to_numpy()
    wrong = twice[differ & seen]
    if wrong.size:
        first = index.get_indexer_for([keys[wrong[0]]])[0]
        raise ValueError(
            f"{table.at(wrong[0], column)}: id '{keys[wrong[0]]}' is already "
            f'in {table.at(first)} with other values ('
            f'{_rows(wrong.size)}); keep one row per node'
        )
    keep = np.flatnonzero(~index.duplicated(keep='first'))
    return table.take(keep), keys[keep], len(keys) - len(keep)


def _rows(count: int) -> str:
    return 'this row only' if count == 1 else f'{count} such rows'


def _check_floats(table: Table, column: str) -> None:
    values = table.frame[column].to_numpy(dtype=np.float64)
    wrong = ~np.isfinite(values) | (values != np.floor(values))
    wrong |= np.abs(values) > _EXACT
    if wrong.any():
        position = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f'{table.at(position, column)}: {values[position]} cannot be an '
            f'id, since a float may have lost digits of it; read the column '
            f'as text'
        )
