"""From columns of numbers and times to features.

What a transformer has learned are plain numbers (``state``), so that files
need no pickle.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from torch_energy_graph.data.tables.scaling import (
    Encoding,
    encoders_from,
    encoders_state,
    learned,
)

__all__ = ['NumberEncoder', 'TimeEncoder']

Floats = NDArray[np.float64]
Self = TypeVar('Self', bound='NumberEncoder')

_DAY, _WEEK = 86_400.0, 604_800.0


class NumberEncoder(TransformerMixin, BaseEstimator):
    r"""Numbers with missing cells (NaN), :math:`[N, F]`.

    Missing cells get the median of the fitted ones. A column that had both
    kinds gets one more column, 1 where a cell is missing; a column that had
    one value, or none, is left out.

    Args:
        encoding (str, optional): 'raw', 'standard' (mean 0, variance 1),
            'normal' (ranks as a normal variable) or 'piecewise' (16 quantile
            bins). (default: :obj:`'standard'`)
    """

    def __init__(self, encoding: Encoding = 'standard') -> None:
        self.encoding = encoding

    def fit(self: Self, X: ArrayLike, y: object = None) -> Self:
        """Learn medians, and the encoding of the filled columns."""
        x = np.asarray(X, dtype=np.float64)
        absent = np.isnan(x)
        filled = [c[~m] for c, m in zip(x.T, absent.T, strict=True)]
        self.median_ = np.array(
            [np.median(c) if c.size else 0 for c in filled]
        )
        self.gaps_ = absent.any(axis=0) & ~absent.all(axis=0)
        self.varies_ = np.array([np.unique(c).size > 1 for c in filled], bool)
        self.encoders_ = (
            learned(self.encoding, self._filled(x))
            if self.varies_.any()
            else []
        )
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Fill, encode, and mark the gaps."""
        x = np.asarray(X, dtype=np.float64)
        values = self._filled(x)
        for encoder in self.encoders_:
            values = encoder.encode(values)
        gaps = np.isnan(x[:, self.gaps_]).astype(np.float64)
        return np.concatenate([values, gaps], axis=1)

    def get_feature_names_out(
        self, input_features: Any
    ) -> NDArray[np.object_]:
        """Names of the features from those of the columns."""
        names = np.asarray(input_features, dtype=object)
        values = list(names[self.varies_])
        if self.encoding == 'piecewise' and values:
            values = [
                f'{name} bin {number}'
                for name, edges in zip(
                    values, self.encoders_[0].edges_, strict=True
                )
                for number in range(1, len(edges))
            ]
        gaps = [f'{name} missing' for name in names[self.gaps_]]
        return np.array([*values, *gaps], dtype=object)

    def state(self) -> dict[str, Any]:
        """What was learned, ready for JSON."""
        return {
            'encoding': self.encoding,
            'median': self.median_.tolist(),
            'gaps': self.gaps_.tolist(),
            'varies': self.varies_.tolist(),
            'encoders': encoders_state(self.encoders_),
        }

    @classmethod
    def from_state(cls: type[Self], state: Mapping[str, Any]) -> Self:
        """The encoder that had this state."""
        encoder = cls(state['encoding'])
        encoder.median_ = np.array(state['median'], dtype=np.float64)
        encoder.gaps_ = np.array(state['gaps'], dtype=bool)
        encoder.varies_ = np.array(state['varies'], dtype=bool)
        width = int(encoder.varies_.sum())
        encoder.encoders_ = encoders_from(state['encoders'], width)
        return encoder

    def _filled(self, x: Floats) -> Floats:
        x = np.where(np.isnan(x), self.median_, x)
        return np.asarray(x[:, self.varies_], dtype=np.float64)


class TimeEncoder(NumberEncoder):
    r"""Times in Unix seconds (NaN if missing), :math:`[N, F]`.

    The time itself, as in :class:`NumberEncoder`, and sine and cosine of its
    place in the day and in the week (UTC), 0 if missing.
    """

    def transform(self, X: ArrayLike) -> Floats:
        """Encode the times, and their places in the day and in the week."""
        x = np.asarray(X, dtype=np.float64)
        times = x[:, self.varies_]
        # 1 January 1970 was a Thursday: weeks begin on Mondays
        shares = [times / _DAY, (times - 4 * _DAY) / _WEEK]
        angles = [2 * np.pi * (share % 1.0) for share in shares]
        waves = [wave(a) for a in angles for wave in (np.sin, np.cos)]
        linear = super().transform(X)
        return np.concatenate([linear, *map(np.nan_to_num, waves)], axis=1)

    def get_feature_names_out(
        self, input_features: Any
    ) -> NDArray[np.object_]:
        """Names of the features from those of the columns."""
        linear = super().get_feature_names_out(input_features)
        names = np.asarray(input_features, dtype=object)[self.varies_]
        waves = [
            f'{name} {wave} of {period}'
            for period in ('day', 'week')
            for wave in ('sine', 'cosine')
            for name in names
        ]
        return np.array([*linear, *waves], dtype=object)
