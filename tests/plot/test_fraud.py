"""What the lines of the pictures are."""

import numpy as np
import pytest
from sklearn.metrics import auc, average_precision_score, roc_auc_score

from torch_energy_graph.plot.fraud import (
    plot_class_descent,
    plot_precision_recall,
    plot_reliability,
    plot_roc,
)

pytest.importorskip('matplotlib')


@pytest.fixture
def axes():
    from torch_energy_graph.plot import new_figure

    return new_figure(3, 3).subplots()


@pytest.fixture
def scored():
    gen = np.random.default_rng(0)
    prob = gen.random(600)
    return (gen.random(600) < prob).astype(int), prob


def test_areas_under_the_curves(axes, scored):
    y, prob = scored
    plot_roc(y, {'a': prob, 'b': 1 - prob}, axes)
    for line, score in zip(axes.lines, (prob, 1 - prob), strict=False):
        area = auc(line.get_xdata(), line.get_ydata())
        assert area == pytest.approx(roc_auc_score(y, score))
    axes.clear()
    plot_precision_recall(y, {'a': prob}, axes, (0.5, 0.75))
    recall, precision = axes.lines[0].get_data()
    area = -np.sum(np.diff(recall) * precision[:-1])
    assert area == pytest.approx(average_precision_score(y, prob))
    point = axes.lines[2].get_data()
    assert (*point[0], *point[1]) == (0.5, 0.75)
    axes.clear()
    plot_precision_recall(y, {'a': prob}, axes, (0.0, None))
    assert len(axes.lines) == 2  # no alarm, no precision


def test_right_probabilities_are_on_the_diagonal(axes, scored):
    plot_reliability(scored[0], {'right': scored[1]}, axes)
    said, share = axes.lines[0].get_data()
    assert len(said) == 15
    np.testing.assert_allclose(said, share, atol=0.25)


def test_descent(axes):
    energy = np.array([[0.0, 1.0], [-1.0, 0.5], [-2.0, 0.0]])
    plot_class_descent(energy, 1, axes)
    assert axes.lines[0].get_ydata().tolist() == [0, -1, -2]
    assert axes.lines[1].get_ydata().tolist() == [1, 0.5, 0]
    assert axes.lines[2].get_xdata() == [1, 1]
