"""All columns of a table to features: fitted once, applied to later tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator

from torch_energy_graph.data.tables.category_encoder import CategoryEncoder
from torch_energy_graph.data.tables.kinds import Kind, parse
from torch_energy_graph.data.tables.number_encoder import (
    NumberEncoder,
    TimeEncoder,
)
from torch_energy_graph.data.tables.scaling import Encoding
from torch_energy_graph.data.tables.table import Frame, Table, require_pandas

__all__ = ['TableEncoder']

_CLASSES: dict[str, Any] = {
    'number': NumberEncoder,
    'time': TimeEncoder,
    'category': CategoryEncoder,
}


class TableEncoder:
    r"""A :class:`~sklearn.compose.ColumnTransformer` by kinds of columns.

    Attributes:
        kinds: What each column holds.
        empty: Columns that had no value at the fit.
        feature_names: Names of the features, in their order.
    """

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        encoders: Mapping[str, Any],
        empty: Sequence[str] = (),
    ) -> None:
        self.kinds = dict(kinds)
        self.empty = list(empty)
        self._encoders = {
            kind: FrozenEstimator(encoder)
            for kind, encoder in encoders.items()
        }
        blocks = [
            (kind, encoder, self._columns(kind))
            for kind, encoder in self._encoders.items()
        ]
        self._transformer = ColumnTransformer(blocks)
        if blocks:  # fitted parts only: this learns the columns' places
            self._transformer.fit(self._example())
        self.feature_names: list[str] = [
            name
            for _, encoder, columns in blocks
            for name in encoder.get_feature_names_out(columns)
        ]

    @classmethod
    def fitted(
        cls,
        table: Table,
        kinds: Mapping[str, Kind],
        rows: NDArray[np.int64],
        encoding: Encoding,
        max_categories: int,
    ) -> 'TableEncoder':
        """Learn from some rows of a table."""
        encoders: dict[str, Any] = {
            'number': NumberEncoder(encoding),
            'time': TimeEncoder(),
            'category': CategoryEncoder(max_categories),
        }
        frame = _parsed(table, kinds)
        # nothing can be said about the cells of an empty column
        empty = [c for c in kinds if not _has_values(frame[c])]
        kinds = {c: k for c, k in kinds.items() if c not in empty}
        encoders = {k: e for k, e in encoders.items() if k in kinds.values()}
        frame = frame.take(rows)
        for kind, encoder in encoders.items():
            encoder.fit(frame[[c for c, k in kinds.items() if k == kind]])
        return cls(kinds, encoders, empty)

    def __call__(self, table: Table) -> tuple[NDArray[np.float32], list[str]]:
        r"""Features :math:`[N, F]`, and in words what is new in the table.

        Raises:
            ValueError: If a column is absent, or a cell is not of its kind.
        """
        if not len(table):
            return np.zeros((0, len(self.feature_names)), np.float32), []
        absent = [c for c in self.kinds if c not in table.columns]
        if absent:
            raise ValueError(
                f"{table.title()}: no column '{absent[0]}'"
                f'{f" (of {len(absent)} absent ones)" * (len(absent) > 1)}, '
                f'which the preprocessing was fitted on; add it, with empty '
                f'cells where it is unknown'
            )
        if not self.kinds:
            return np.zeros((len(table), 0), np.float32), self._news(table)
        frame = _parsed(table, self.kinds)
        x = np.asarray(self._transformer.transform(frame))  # [N, F]
        with np.errstate(over='ignore'):
            narrow = x.astype(np.float32)
        wrong = np.flatnonzero(~np.isfinite(narrow).all(axis=0))
        if wrong.size:
            raise ValueError(
                f"{table.title()}: feature '{self.feature_names[wrong[0]]}' "
                f'does not fit into float32; rescale the column, or use '
                f"Preprocessing(encoding='normal')"
            )
        return narrow, self._news(table) + self._new_cells(frame)

    def state(self) -> dict[str, Any]:
        """Kinds and all that was learned, ready for JSON."""
        encoders = {k: e.estimator.state() for k, e in self._encoders.items()}
        return {
            'kinds': self.kinds,
            'encoders': encoders,
            'empty': self.empty,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> 'TableEncoder':
        """The encoder that had this state."""
        kinds: dict[str, Kind] = {str(c): k for c, k in state['kinds'].items()}
        encoders = {
            kind: _CLASSES[kind].from_state(learned)
            for kind, learned in state['encoders'].items()
        }
        if {*kinds.values()} != {*encoders}:
            raise ValueError('kinds and encoders differ')
        return cls(kinds, encoders, [str(c) for c in state['empty']])

    def _columns(self, kind: str) -> list[str]:
        return [c for c, k in self.kinds.items() if k == kind]

    def _example(self) -> Frame:
        empty = {
            c: [''] if k == 'category' else [0.0]
            for c, k in self.kinds.items()
        }
        return require_pandas().DataFrame(empty)

    def _news(self, table: Table) -> list[str]:
        known = {*self.kinds, *self.empty}
        extra = [c for c in table.columns if c not in known]
        if not extra:
            return []
        return [
            f'{table.title()}: left aside columns the preprocessing was not '
            f'fitted on ({", ".join(extra)})'
        ]

    def _new_cells(self, frame: Frame) -> list[str]:
        notes = []
        for kind, frozen in self._encoders.items():
            encoder = frozen.estimator
            for i, column in enumerate(self._columns(kind)):
                values = frame[column].to_numpy()
                if kind == 'category':
                    count = encoder.unseen(i, values)
                    what = 'hold a category not seen at the fit'
                else:
                    new = encoder.varies_[i] and not encoder.gaps_[i]
                    count = int(np.isnan(values).sum()) if new else 0
                    what = 'are missing, as none was at the fit'
                if count:
                    notes.append(f"column '{column}': {count} cells {what}")
        return notes


def _has_values(column: Any) -> bool:
    if column.dtype.kind == 'f':
        return bool(column.notna().any())
    return bool((column != '').any())


def _parsed(table: Table, kinds: Mapping[str, Kind]) -> Frame:
    columns = {c: parse(table, c, kind) for c, kind in kinds.items()}
    return require_pandas().DataFrame(columns, index=range(len(table)))
