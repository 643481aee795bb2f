r"""Class-weighted binary cross-entropy for rare anomalies.

.. math::
    L = -\frac{1}{N} \sum_i \big( \omega\, y_i \log p_i
        + (1 - y_i) \log (1 - p_i) \big), \qquad
    \omega = \frac{\#\{i : y_i = 0\}}{\#\{i : y_i = 1\}}            (1)

With this :math:`\omega` both classes weigh the same in total, so a model that
answers "normal" everywhere pays for it however rare anomalies are.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ['class_balance', 'weighted_bce_with_logits']


def class_balance(y: Tensor) -> float:
    r"""Weight :math:`\omega` of an anomaly, benign over anomalous nodes.

    Args:
        y (Tensor): Labels in :math:`\{0, 1\}`, :math:`[N]`.

    Returns:
        float: :math:`\omega` of Eq. (1).
    """
    _check_binary(y)
    anomalous = int((y == 1).sum())
    benign = y.numel() - anomalous
    if anomalous == 0 or benign == 0:
        raise ValueError(
            f"'class_balance' expects labels of both classes (got {benign} "
            f'benign and {anomalous} anomalous nodes); draw a stratified '
            f"training set or give 'pos_weight'"
        )
    return benign / anomalous


def weighted_bce_with_logits(
    logits: Tensor,
    y: Tensor,
    pos_weight: float | Tensor | None = None,
) -> Tensor:
    r"""Mean weighted binary cross-entropy, Eq. (1).

    Args:
        logits (Tensor): One logit per node, high is anomalous, :math:`[N]`.
        y (Tensor): Labels in :math:`\{0, 1\}`, :math:`[N]`.
        pos_weight (float or Tensor, optional): :math:`\omega`; if
            :obj:`None`, it is taken from :obj:`y`. Mini-batches should be
            given the :math:`\omega` of the whole training set.
            (default: :obj:`None`)

    Returns:
        Tensor: A scalar.
    """
    if logits.shape != y.shape or logits.dim() != 1:
        raise ValueError(
            f"'weighted_bce_with_logits' expects logits and y of the same "
            f'shape [N] (got {list(logits.shape)} and {list(y.shape)}); '
            f'squeeze a trailing dimension with .squeeze(-1)?'
        )
    _check_binary(y)
    omega = class_balance(y) if pos_weight is None else pos_weight
    weight = torch.as_tensor(omega, dtype=logits.dtype, device=logits.device)
    if not bool((weight > 0).all()):
        raise ValueError(f"expected 'pos_weight' > 0 (got {omega})")
    return F.binary_cross_entropy_with_logits(
        logits, y.to(logits.dtype), pos_weight=weight
    )


def _check_binary(y: Tensor) -> None:
    wrong = (y != 0) & (y != 1)
    if bool(wrong.any()):
        raise ValueError(
            f'expected labels 0 (normal) or 1 (anomalous) (got '
            f'{y[wrong].unique()[:5].tolist()} at {int(wrong.sum())} nodes); '
            f'select the labelled nodes first'
        )
