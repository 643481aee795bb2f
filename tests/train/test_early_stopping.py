import doctest
import math

import pytest

import torch_energy_graph.train.early_stopping as module
from torch_energy_graph.train import EarlyStopping


@pytest.mark.parametrize(('mode', 'sign'), [('max', 1), ('min', -1)])
def test_stops_after_patience(mode, sign):
    stopper = EarlyStopping(2, mode)
    seen = []
    for value in (0.1, 0.3, 0.2, 0.4, 0.4, 0.1):
        better = stopper.step(sign * value)
        seen.append((better, stopper.should_stop))
    assert [better for better, _ in seen] == [True, True, 0, True, 0, 0]
    assert [stop for _, stop in seen] == [False] * 5 + [True]
    assert stopper.best == sign * 0.4


def test_no_patience_never_stops():
    stopper = EarlyStopping(None)
    for _ in range(100):
        stopper.step(0.0)
    assert not stopper.should_stop


def test_errors():
    with pytest.raises(ValueError, match='patience'):
        EarlyStopping(0)
    with pytest.raises(ValueError, match='mode'):
        EarlyStopping(1, 'up')
    with pytest.raises(ValueError, match='NaN'):
        EarlyStopping(1).step(math.nan)


def test_example():
    assert doctest.testmod(module).failed == 0
