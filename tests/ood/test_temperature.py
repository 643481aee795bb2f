import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from torch_energy_graph.metrics import top_label_calibration_error
from torch_energy_graph.ood import fit_temperature, warn_if_underconfident


def draw(num_rows=400, sharpness=1.0, seed=0):
    """Logits whose right temperature is the sharpness."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((num_rows, 3))
    gumbel = rng.gumbel(size=logits.shape)
    y = (logits + gumbel).argmax(1)  # drawn from their softmax
    return torch.tensor(sharpness * logits), torch.tensor(y)


def test_the_gradient_vanishes_at_the_minimum():
    logits, y = draw()
    temperature = fit_temperature(logits, y)
    log_t = torch.tensor(math.log(temperature)).double().requires_grad_()
    loss = F.cross_entropy(logits / log_t.exp(), y)
    (slope,) = torch.autograd.grad(loss, log_t)
    assert abs(float(slope)) < 1e-6


@pytest.mark.parametrize('sharpness', [0.3, 1.0, 5.0])
def test_finds_what_the_logits_were_scaled_by(sharpness):
    logits, y = draw(4000, sharpness)
    assert fit_temperature(logits, y) == pytest.approx(sharpness, rel=0.1)


def test_scales_with_the_logits():
    logits, y = draw()
    expected = 7 * fit_temperature(logits, y)
    assert fit_temperature(7 * logits, y) == pytest.approx(expected, rel=1e-5)


def test_equals_scikit_learn():
    pytest.importorskip('sklearn', minversion='1.8')
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Logits(ClassifierMixin, BaseEstimator):
        """Its decision function is its input."""

        def fit(self, x, y):
            self.classes_ = np.unique(y)
            return self

        def decision_function(self, x):
            return x

        def predict(self, x):
            return x.argmax(1)

    logits, y = draw(sharpness=3.0)
    model = FrozenEstimator(Logits().fit(None, y.numpy()))
    fitted = CalibratedClassifierCV(model, method='temperature')
    fitted.fit(logits.numpy(), y.numpy())
    expected = fitted.predict_proba(logits.numpy())
    out = (logits / fit_temperature(logits, y)).softmax(-1).numpy()
    np.testing.assert_allclose(out, expected, atol=1e-4)


def test_calibrates_an_over_confident_model():
    logits, y = draw(2000, 5.0)
    before = top_label_calibration_error(y, logits.softmax(-1))
    scaled = logits / fit_temperature(logits, y)
    after = top_label_calibration_error(y, scaled.softmax(-1))
    assert before > 0.1
    assert after < 0.03


def test_labels_that_hold_together():
    logits, _ = draw(2000)
    gen = torch.Generator().manual_seed(1)
    y = torch.bernoulli(logits.sigmoid(), generator=gen)
    out = fit_temperature(4 * logits, y, multi_label=True)
    assert out == pytest.approx(4.0, rel=0.1)


def test_bounds_warn():
    y = torch.tensor([0, 1])
    with pytest.warns(UserWarning, match=r'a bound, 0\.01: the sharper'):
        fit_temperature(torch.eye(2), y)
    with pytest.warns(UserWarning, match='a bound, 100: the flatter'):
        fit_temperature(torch.eye(2), 1 - y)


def test_bad_inputs():
    with pytest.raises(ValueError, match='finite'):
        fit_temperature(torch.tensor([[0.0, math.inf]]), torch.tensor([0]))
    with pytest.raises(ValueError, match='labelled rows'):
        fit_temperature(torch.zeros(0, 2), torch.zeros(0).long())


def test_underconfident_models_warn(recwarn):
    logits, y = draw(1000, 5.0)
    gap = warn_if_underconfident(logits, y)
    prob = logits.softmax(-1)
    right = (prob.argmax(-1) == y).double().mean()
    expected = float(prob.max(-1).values.mean() - right)
    assert gap == pytest.approx(expected, abs=1e-12)
    assert gap > 0.1
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r'under-confident .*% below'):
        gap = warn_if_underconfident(logits / 50, y)
    assert gap < 0
