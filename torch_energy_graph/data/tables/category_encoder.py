"""From columns of categories to one feature per category."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

__all__ = ['CategoryEncoder']

_OTHER, _MISSING = -1, -2  # codes behind those of the kept categories


class CategoryEncoder(TransformerMixin, BaseEstimator):
    r"""Text with missing cells (''), :math:`[N, F]`: a column per category.

    The most frequent categories that occur more than once have a column
    each; among equally frequent ones, the alphabet decides. All others,
    and those that come later, share one (which exists if there were others).
    Missing cells have one of their own if there were any. A column that was
    the same everywhere is left out.

    Args:
        max_categories (int, optional): Upper bound of categories with a
            column of their own, for each input column.
            (default: :obj:`32`)
    """

    def __init__(self, max_categories: int = 32) -> None:
        self.max_categories = max_categories

    def fit(self, X: ArrayLike, y: object = None) -> 'CategoryEncoder':
        """Learn the categories of each column."""
        self.kept_: list[list[str]] = []
        self.other_: list[bool] = []
        self.gaps_: list[bool] = []
        for column in np.asarray(X, dtype=object).T:
            counts = Counter(column.tolist())
            self.gaps_.append(counts.pop('', 0) > 0)
            frequent = sorted(counts, key=lambda word: (-counts[word], word))
            kept = [w for w in frequent if counts[w] > 1]
            self.kept_.append(sorted(kept[: self.max_categories]))
            self.other_.append(len(self.kept_[-1]) < len(counts))
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return one column of zeros and ones per category."""
        x = np.asarray(X, dtype=object)
        blocks = []
        for i, column in enumerate(x.T):
            codes = self._codes(i, column)  # [N]
            blocks += [codes == code for _, code in self._columns(i)]
        if not blocks:
            return np.zeros((len(x), 0))
        return np.stack(blocks, axis=1).astype(np.float64)

    def unseen(self, column: int, values: NDArray[np.object_]) -> int:
        """Number of cells whose category has no column and never had one."""
        if self.other_[column]:
            return 0
        return int((self._codes(column, values) == _OTHER).sum())

    def get_feature_names_out(
        self, input_features: Any
    ) -> NDArray[np.object_]:
        """Names of the features from those of the columns."""
        names = [
            f'{name}{end}'
            for i, name in enumerate(input_features)
            for end, _ in self._columns(i)
        ]
        return np.array(names, dtype=object)

    def state(self) -> dict[str, Any]:
        """What was learned, ready for JSON."""
        return {
            'max_categories': self.max_categories,
            'kept': self.kept_,
            'other': self.other_,
            'gaps': self.gaps_,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> 'CategoryEncoder':
        """The encoder that had this state."""
        encoder = cls(state['max_categories'])
        encoder.kept_ = [[str(w) for w in kept] for kept in state['kept']]
        encoder.other_ = [bool(flag) for flag in state['other']]
        encoder.gaps_ = [bool(flag) for flag in state['gaps']]
        return encoder

    def _codes(
        self, column: int, values: NDArray[np.object_]
    ) -> NDArray[np.int64]:
        code = {word: i for i, word in enumerate(self.kept_[column])}
        code[''] = _MISSING
        return np.array([code.get(v, _OTHER) for v in values], np.int64)

    def _columns(self, column: int) -> Iterator[tuple[str, int]]:
        """End of the name, and code, of the features of a column."""
        kept, other = self.kept_[column], self.other_[column]
        if len(kept) + other + self.gaps_[column] < 2:
            return  # it was the same everywhere
        for code, word in enumerate(kept):
            yield f'={word}', code
        if other:
            yield ' other', _OTHER
        if self.gaps_[column]:
            yield ' missing', _MISSING
