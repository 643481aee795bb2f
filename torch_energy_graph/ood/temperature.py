r"""Temperature scaling: one number, fitted after training.

.. math::
    \hat T = \arg\min_T -\frac{1}{N} \sum_i
        \log \operatorname{softmax}(f(x_i) / T)_{y_i}                 (1)

(Guo et al. 2017) on validation rows. The winning class stays the same, only
the confidence changes: the baseline that any trained calibration has to beat.
"""

from __future__ import annotations

import math
import warnings

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from .calls import classification_loss

__all__ = ['fit_temperature']

_BOUNDS = (1e-2, 1e2)


@torch.no_grad()
def fit_temperature(
    logits: Tensor, y: Tensor, multi_label: bool = False
) -> float:
    r"""Temperature with the least negative log-likelihood, Eq. (1).

    The likelihood is convex in :math:`1 / T`, so the minimum is the only one.
    It lies at a bound, 0.01 or 100, with a warning, where all rows are right
    or where logits say nothing of the classes.

    Args:
        logits (Tensor): Of validation rows, :math:`[N, K]`.
        y (Tensor): Classes :math:`[N]`, or labels :math:`[N, K]`.
        multi_label (bool, optional): Labels that may hold together.
            (default: :obj:`False`)

    Returns:
        float: :math:`\hat T`; divide logits by it, or give it to
        :class:`~torch_energy_graph.ood.EnergyClassifier`.

    Raises:
        ValueError: If there are no rows or logits are not finite.
    """
    logits = logits.double()
    if not bool(logits.isfinite().all()):
        raise ValueError("'fit_temperature' expects finite logits")

    def loss(log_t: float) -> float:
        scaled = logits / math.exp(log_t)
        return float(classification_loss(scaled, y, multi_label))

    low, high = map(math.log, _BOUNDS)
    found = minimize_scalar(
        loss, bounds=(low, high), method='bounded', options={'xatol': 1e-8}
    )
    for bound, what in ((low, 'sharper'), (high, 'flatter')):
        if loss(bound) <= float(found.fun):
            warnings.warn(
                f'the best temperature is a bound, {math.exp(bound):.3g}: the '
                f'{what} the probabilities, the better; take more validation '
                f'rows',
                stacklevel=3,
            )
            return math.exp(bound)
    return math.exp(found.x)
