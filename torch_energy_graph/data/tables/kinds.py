"""What a column holds (numbers, times or categories), and its values."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from torch_energy_graph.data.tables.cells import texts
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.table import Table, require_pandas

__all__ = ['Kind', 'find_kinds', 'parse']

Kind = Literal['number', 'time', 'category']
Floats = NDArray[np.float64]

# a column of which this share, but not all, reads as one kind has bad cells
NEARLY = 0.9
_TRUTH = {'true': 1.0, 'false': 0.0}


def find_kinds(
    table: Table, columns: Iterable[str], layout: TableLayout
) -> dict[str, Kind]:
    """The kind of each column, from its type or, of text, from its cells.

    Raises:
        ValueError: If nearly all cells, but not all, are numbers or times.
    """
    return {column: _kind(table, column, layout) for column in columns}


def parse(table: Table, column: str, kind: Kind) -> NDArray[Any]:
    r"""The values of a column, :math:`[N]`.

    Returns:
        ndarray: Numbers as float64 and times as Unix seconds, NaN if missing;
        categories as text, '' if missing.

    Raises:
        ValueError: If a cell is not of the kind, or is infinite.
    """
    if kind == 'category':
        return texts(table.frame[column])
    if kind == 'time':
        return _times(table, column)
    return _numbers(table, column)


def _kind(table: Table, column: str, layout: TableLayout) -> Kind:
    series = table.frame[column]
    if column in layout.categorical:
        return 'category'
    if column in layout.timestamps or series.dtype.kind == 'M':
        return 'time'
    if series.dtype.kind in 'biuf':
        return 'number'
    if str(series.dtype) == 'category':
        return 'category'
    cells = texts(series)
    present = cells != ''
    if not present.any():
        return 'number'  # an empty column
    for kind, read in _READERS.items():
        values = read(cells)
        good = ~np.isnan(values[present])
        if good.mean() >= NEARLY and not good.all():
            bad = int(np.flatnonzero(present & np.isnan(values))[0])
            raise ValueError(
                f'{table.at(bad, column)}: expected a {kind} as in '
                f'{good.sum()} other rows (got {cells[bad]!r}); correct or '
                f"empty it, or name '{column}' in "
                f'TableLayout(categorical=...)'
            )
        if good.all():
            return 'category' if _has_codes(cells) else kind
    return 'category'


def _has_codes(cells: NDArray[np.object_]) -> bool:
    """Whether there is a number with a zero in front, such as 00713."""
    return any(c[:1] == '0' and len(c) > 1 and c.isdecimal() for c in cells)


def _numbers(table: Table, column: str) -> Floats:
    series = table.frame[column]
    if series.dtype.kind in 'biuf':
        values: Floats = series.to_numpy(dtype=np.float64, na_value=np.nan)
        absent = np.isnan(values)
    else:
        cells = texts(series)
        values, absent = _as_numbers(cells), cells == ''
    wrong = ~np.isfinite(values) & ~absent
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        got = texts(series.iloc[[bad]])[0]
        raise ValueError(
            f'{table.at(bad, column)}: expected a finite number (got '
            f'{got!r}, {int(wrong.sum())} such cells); write numbers as '
            f'1234.5, and leave unknown ones empty'
        )
    return values


def _times(table: Table, column: str) -> Floats:
    pandas = require_pandas()
    series = table.frame[column]
    if series.dtype.kind == 'M':
        return _seconds(pandas.to_datetime(series, utc=True))
    if series.dtype.kind in 'iuf':
        return _numbers(table, column)
    cells = texts(series)
    values = _as_times(cells)
    if np.isnan(values[cells != '']).any():  # Unix seconds, as text
        values = np.where(np.isnan(values), _as_numbers(cells), values)
    wrong = ~np.isfinite(values) & (cells != '')
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f'{table.at(bad, column)}: expected a time (got {cells[bad]!r}, '
            f'{int(wrong.sum())} such cells); write it as 2024-01-31 or '
            f'2024-01-31T08:30:00+00:00, or as Unix seconds'
        )
    return values


def _as_numbers(cells: NDArray[np.object_]) -> Floats:
    pandas = require_pandas()
    numbers = pandas.to_numeric(
        pandas.Series(cells, dtype=object), errors='coerce'
    )
    values: Floats = numbers.to_numpy(dtype=np.float64, copy=True)
    for word in {*cells[np.isnan(values)]}:
        if word.lower() in _TRUTH:
            values[cells == word] = _TRUTH[word.lower()]
    return values


def _as_times(cells: NDArray[np.object_]) -> Floats:
    pandas = require_pandas()
    # pandas reads 'now' and 'today' as times, too
    words = [cell if cell[:1].isdecimal() else '' for cell in cells]
    series = pandas.Series(words, dtype=object)
    return _seconds(
        pandas.to_datetime(series, format='ISO8601', utc=True, errors='coerce')
    )


def _seconds(times: Any) -> Floats:
    start = require_pandas().Timestamp('1970-01-01', tz='UTC')
    return np.asarray((times - start).dt.total_seconds(), dtype=np.float64)


_READERS: dict[Kind, Callable[[NDArray[np.object_]], Floats]] = {
    'number': _as_numbers,
    'time': _as_times,
}
