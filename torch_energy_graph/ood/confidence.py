"""Look at the confidence before choosing beta."""

from __future__ import annotations

import warnings

from torch import Tensor

from torch_energy_graph.metrics import confidence_gap

__all__ = ['warn_if_underconfident']


def warn_if_underconfident(logits: Tensor, y: Tensor) -> float:
    """Mean confidence minus accuracy on validation rows; warns if negative.

    NG-EBM's gradient term flattens the energy, and with it the probabilities.
    A model that is less sure than it is right gets worse by it. Call this on
    a model trained with cross-entropy alone.

    Args:
        logits (Tensor): Of validation rows, :math:`[N, K]`.
        y (LongTensor): Classes :math:`[N]`.

    Returns:
        float: Positive if the model is over-confident.
    """
    prob = logits.detach().double().softmax(-1).cpu().numpy()
    gap = confidence_gap(y.cpu().numpy(), prob)
    if gap < 0:
        warnings.warn(
            f'the model is under-confident (mean confidence is {-gap:.1%} '
            f'below its accuracy): the gradient term of NG-EBM is likely to '
            f'make calibration worse; compare with temperature scaling, or '
            f'use the variance term alone',
            stacklevel=2,
        )
    return gap
