"""Stop when a measure no longer improves."""

import math
from typing import Literal

__all__ = ['EarlyStopping']


class EarlyStopping:
    """Watches a measure and says when to stop.

    Args:
        patience (int, optional): Number of evaluations in a row without
            improvement after which to stop; if :obj:`None`, never.
        mode (str, optional): :obj:`'max'` if high is good, :obj:`'min'` if
            low is good. (default: :obj:`'max'`)

    Example:
        >>> stopper = EarlyStopping(patience=2)
        >>> [stopper.step(value) for value in (0.5, 0.7, 0.6, 0.7)]
        [True, True, False, False]
        >>> stopper.should_stop, stopper.best
        (True, 0.7)
    """

    def __init__(
        self, patience: int | None, mode: Literal['max', 'min'] = 'max'
    ) -> None:
        if patience is not None and patience < 1:
            raise ValueError(f"expected 'patience' >= 1 (got {patience})")
        if mode not in ('max', 'min'):
            raise ValueError(f"expected 'mode' max or min (got {mode!r})")
        self.patience = patience
        self.mode = mode
        self.best = -math.inf if mode == 'max' else math.inf
        self.num_bad = 0

    def step(self, value: float) -> bool:
        """Note a value; :obj:`True` if it is better than all before it."""
        if math.isnan(value):
            raise ValueError('expected a number to judge progress (got NaN)')
        better = value > self.best if self.mode == 'max' else value < self.best
        if better:
            self.best = value
        self.num_bad = 0 if better else self.num_bad + 1
        return better

    @property
    def should_stop(self) -> bool:
        """Whether the patience is used up."""
        return self.patience is not None and self.num_bad >= self.patience
