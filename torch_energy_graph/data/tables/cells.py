"""Cells as text, the same for files and for frames of any type."""

import datetime
import math
import numbers
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torch_energy_graph.data.tables.table import Table, require_pandas

__all__ = ['check_cells', 'id_texts', 'texts']

# what spreadsheets, databases and pandas write for "no value"
_MISSING = frozenset(('', 'na', 'n/a', '<na>', '#na', '#n/a', '#n/a n/a'))
_MISSING |= {'nan', '-nan', 'nat', 'null', 'none'}
_LONGEST = max(map(len, _MISSING))
_WHOLE = re.compile(r'-?(0|[1-9]\d*)\.0+')
_DATES = (datetime.date, np.datetime64)
_SCALARS = (str, bool, np.bool_, numbers.Real, Decimal, *_DATES)


def id_texts(series: Any) -> NDArray[np.object_]:
    r"""The cells of a column as stripped text, :math:`[N]`, '' if empty.

    Whole numbers have no decimal point, so that ids are the same from
    integers and from integers that missing cells have turned into floats.
    """
    return _mapped(series, _text)


def texts(series: Any) -> NDArray[np.object_]:
    r"""As :func:`id_texts`, with '' for all ways to write "missing".

    A text such as '1.0' is '1': the same code, written by other software.
    """
    return _mapped(series, _word)


def check_cells(table: Table) -> None:
    """TypeError at the first cell that is neither text, number nor time."""
    for column in table.columns:
        series = table.frame[column]
        if series.dtype.kind in 'cm':  # complex numbers and durations
            raise TypeError(
                f"{table.title()}, column '{column}': expected text, numbers "
                f'or times (got {series.dtype}); convert it to float'
            )
        if series.dtype != object:
            continue
        for position, cell in enumerate(series):
            if isinstance(cell, _SCALARS) or _is_null(cell):
                continue
            raise TypeError(
                f'{table.at(position, column)}: expected text, a number or a '
                f"time (got '{type(cell).__name__}'); spread it over columns"
            )


def _mapped(
    series: Any, function: Callable[[Any], str]
) -> NDArray[np.object_]:
    codes, uniques = require_pandas().factorize(series)
    uniques = np.asarray(uniques, dtype=object)  # faster to walk through
    # code -1, the last one, is missing
    words = np.array([*map(function, uniques), ''], dtype=object)
    return np.asarray(words[codes], dtype=object)


def _word(value: Any) -> str:
    text = _text(value)
    if len(text) <= _LONGEST and text.lower() in _MISSING:
        return ''
    whole = text.endswith('0') and _WHOLE.fullmatch(text)
    return text.partition('.')[0] if whole else text


def _is_null(cell: Any) -> bool:
    pandas = require_pandas()
    return cell is None or cell is pandas.NA or cell is pandas.NaT


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return 'true' if value else 'false'
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real | Decimal):
        number = float(value)
        if math.isnan(number):
            return ''
        whole = math.isfinite(number) and number.is_integer()
        return str(int(number)) if whole else repr(number)
    if isinstance(value, datetime.date):  # also pandas.Timestamp
        return value.isoformat()
    return str(value)
