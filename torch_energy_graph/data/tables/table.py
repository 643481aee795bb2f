"""Rows that know where they came from, so that errors can name the place."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torch_energy_graph.extras import require

__all__ = ['Frame', 'Table', 'nearest', 'require_pandas']

Frame = Any  # pandas.DataFrame; pandas has no types and may be absent


def require_pandas() -> Any:
    """The module pandas; ImportError names the extra that brings it."""
    return require('pandas', 'pandas', 'tables')


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of the known names, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f'there are: {", ".join(known) or "none"}'


@dataclass(frozen=True, eq=False)
class Table:
    r"""A data frame and, for each row, its file and its number there.

    Attributes:
        frame: The cells, :math:`[N, C]`, with rows numbered from 0.
        names: Names of the files or frames that the rows came from.
        part: For each row, its position in :obj:`names`, :math:`[N]`.
        row: For each row, its number in its file, :math:`[N]`. The row of
            column names of a file is row 1; rows of frames count from 0.
    """

    frame: Frame
    names: tuple[str, ...]
    part: NDArray[np.int64]
    row: NDArray[np.int64]

    @staticmethod
    def of(frame: Frame, name: str, first: int = 0) -> 'Table':
        """All rows of one frame or file, numbered from ``first``."""
        rows = np.arange(first, first + len(frame))
        frame = frame.reset_index(drop=True)
        return Table(frame, (name,), np.zeros(len(frame), np.int64), rows)

    @staticmethod
    def stack(tables: Sequence['Table']) -> 'Table':
        """Tables below each other; cells of absent columns are missing."""
        if len(tables) == 1:
            return tables[0]
        names = tuple(dict.fromkeys(n for t in tables for n in t.names))
        part = [
            np.array([names.index(n) for n in t.names], np.int64)[t.part]
            for t in tables
        ]
        columns = dict.fromkeys(c for t in tables for c in t.frame.columns)
        frame = require_pandas().DataFrame(
            {c: _stacked(c, tables) for c in columns},
            index=range(sum(map(len, tables))),
        )
        rows = np.concatenate([t.row for t in tables])
        return Table(frame, names, np.concatenate(part), rows)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.frame.columns)

    def take(self, positions: NDArray[Any]) -> 'Table':
        """The rows at these positions, which may repeat."""
        frame = self.frame.take(positions).reset_index(drop=True)
        part, row = self.part[positions], self.row[positions]
        return Table(frame, self.names, part, row)

    def only(self, columns: Sequence[str]) -> 'Table':
        """The same rows with some columns."""
        return Table(
            self.frame[list(columns)], self.names, self.part, self.row
        )

    def at(self, position: int, column: str | None = None) -> str:
        """The place of a row, or of a cell, in words."""
        name = self.names[self.part[position]]
        text = f"'{name}', row {self.row[position]}"
        return text if column is None else f"{text}, column '{column}'"

    def title(self) -> str:
        """The files, in words."""
        return ', '.join(f"'{name}'" for name in self.names)

    def need(self, column: str, field: str) -> Any:
        """A column that a field of the layout names."""
        if column not in self.frame.columns:
            raise ValueError(
                f"{self.title()}: no column '{column}'; name it with "
                f"TableLayout({field}='...') ({nearest(column, self.columns)})"
            )
        return self.frame[column]


def _stacked(column: str, tables: Sequence[Table]) -> Any:
    pandas = require_pandas()
    parts = [t.frame[column] for t in tables if column in t.columns]
    if len(parts) == len(tables) and len({part.dtype for part in parts}) == 1:
        return pandas.concat(parts, ignore_index=True)
    cells = [
        t.frame[column].to_numpy(dtype=object)
        if column in t.columns
        else np.full(len(t), None)
        for t in tables
    ]
    return pandas.Series(np.concatenate(cells), dtype=object)
