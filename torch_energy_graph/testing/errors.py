"""What a broken contract raises."""

from __future__ import annotations

from torch import Tensor

__all__ = ['ContractError', 'require', 'require_close']

_FLOOR = 1e-13  # rounding of float64 around values that are zero


class ContractError(AssertionError):
    """A layer does not keep a promise; the message says which, and where."""


def require(condition: bool, what: str) -> None:
    """Raises a :class:`ContractError` that says what was expected."""
    if not condition:
        raise ContractError(what)


def require_close(
    actual: Tensor, expected: Tensor, rtol: float, what: str
) -> None:
    """Compares tensors relative to the largest expected value.

    Args:
        actual (Tensor): What the layer gives.
        expected (Tensor): What it should give.
        rtol (float): Allowed deviation over the largest expected value.
        what (str): Graph and quantity, for the message.

    Raises:
        ContractError: If shapes differ, or values are not finite or too far
            from each other.
    """
    if actual.shape != expected.shape:
        raise ContractError(
            f'{what}: expected shape {list(expected.shape)} '
            f'(got {list(actual.shape)})'
        )
    actual, expected = actual.detach().double(), expected.detach().double()
    if not actual.isfinite().all():
        wrong = int((~actual.isfinite()).sum())
        raise ContractError(
            f'{what}: {wrong} of {actual.numel()} values are not finite'
        )
    if actual.numel() == 0:
        return
    deviation = float((actual - expected).abs().max())
    allowed = rtol * float(expected.abs().max()) + _FLOOR
    if not deviation <= allowed:
        raise ContractError(
            f'{what}: deviates by {deviation:.3g} (allowed {allowed:.3g}, '
            f'which is {rtol:g} of the largest value)'
        )
