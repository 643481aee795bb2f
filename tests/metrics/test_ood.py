from importlib import util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from torch_energy_graph.metrics import fpr_at_tpr, ood_metrics

# few values, so that ties are the rule
scores = st.lists(
    st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=30
)


@settings(max_examples=20)
@given(scores, scores)
def test_equal_to_sklearn_and_brute_force(score_in, score_out):
    out = ood_metrics(score_in, score_out)
    known = [1] * len(score_in) + [0] * len(score_out)
    assert out.auroc == roc_auc_score(known, score_in + score_out)
    assert out.aupr == average_precision_score(known, score_in + score_out)
    wins = [(a > b) + 0.5 * (a == b) for a in score_in for b in score_out]
    assert out.auroc == pytest.approx(np.mean(wins), abs=1e-12)
    assert out.fpr95 == fpr_at_tpr(score_in, score_out)


@settings(max_examples=30)
@given(scores, scores, st.sampled_from([0.05, 0.5, 0.9, 0.95, 1.0]))
def test_false_positives_equal_brute_force(score_in, score_out, tpr):
    score_in, score_out = np.array(score_in), np.array(score_out)
    enough = [t for t in score_in if (score_in >= t).mean() >= tpr - 1e-12]
    expected = (score_out >= max(enough)).mean()
    assert fpr_at_tpr(score_in, score_out, tpr) == pytest.approx(expected)


def test_exactly_95_of_100():
    score_in = np.arange(100.0)
    assert fpr_at_tpr(score_in, [4.5, 5.0, 5.5, 50.0]) == 0.75
    assert fpr_at_tpr(score_in, [4.0]) == 0.0


@pytest.mark.skipif(
    util.find_spec('torchmetrics') is None,
    reason='torchmetrics is not installed',
)
def test_areas_equal_torchmetrics():
    import torch
    from torchmetrics.functional.classification import (
        binary_auroc,
        binary_average_precision,
    )

    rng = np.random.default_rng(0)
    score_in, score_out = rng.normal(1, 1, 60), rng.normal(0, 1, 50)
    score_out[:20] = score_in[:20]  # ties
    score = torch.tensor(np.concatenate([score_in, score_out])).sigmoid()
    known = (torch.arange(110) < 60).long()
    out = ood_metrics(score_in, score_out)
    assert out.auroc == pytest.approx(float(binary_auroc(score, known)))
    area = float(binary_average_precision(score, known))
    assert out.aupr == pytest.approx(area)


def test_bad_inputs():
    with pytest.raises(ValueError, match="'score_in' of shape"):
        ood_metrics([], [1.0])
    with pytest.raises(ValueError, match="'score_out' of shape"):
        ood_metrics([1.0], [[1.0]])
    with pytest.raises(ValueError, match=r"'score_out' \(got 1 NaN.*\[1\]"):
        fpr_at_tpr([1.0], [1.0, np.inf])
    with pytest.raises(ValueError, match="'tpr'"):
        fpr_at_tpr([1.0], [1.0], 0.0)
