"""Does a layer fit wherever a PyG layer fits?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from torch.nn import Module

from . import conv_hosts, conv_modes, conv_values
from .errors import ContractError
from .subject import CHECKS, PROFILES, EdgeInput, Subject, seeded

__all__ = ['check_conv', 'conv_checks']

# importing these registers their checks
_GROUPS = (conv_values, conv_modes, conv_hosts)


def check_conv(
    factory: Callable[..., Module],
    profile: str = 'conv',
    *,
    edge_inputs: Mapping[str, EdgeInput] | None = None,
    skip: Collection[str] = (),
) -> None:
    """Runs the drop-in checklist over a layer.

    Args:
        factory (callable): Makes a layer, such as its class.
        profile (str, optional): By signature: ``'conv'`` for layers
            ``(in_channels, out_channels)``, ``'field'`` for gradient fields
            ``(channels)`` on a graph, ``'node'`` for layers ``(channels)``
            without edges. (default: :obj:`"conv"`)
        edge_inputs (dict, optional): Inputs that the layer needs besides
            ``edge_index``, by keyword; each is a function of the number of
            edges and a generator.
        skip (list, optional): Names of checks to leave out, see
            :func:`conv_checks`. (default: :obj:`()`)

    Raises:
        ContractError: Names every check that failed, and why.
        ValueError: If the profile or a check to skip does not exist.
    """
    checks = dict(conv_checks(profile))
    unknown = sorted(set(skip) - set(checks))
    if unknown:
        raise ValueError(
            f"'skip' expects checks of the profile {profile!r} "
            f'(got {unknown}); they are {sorted(checks)}'
        )
    failures: list[str] = []
    for name, check in checks.items():
        if name in skip:
            continue
        try:
            check(factory, edge_inputs=edge_inputs)
        except ContractError as error:
            failures.append(str(error))
    if failures:
        raise ContractError('\n'.join(failures))


def conv_checks(
    profile: str = 'conv',
) -> list[tuple[str, Callable[..., None]]]:
    """The checks of a profile, to be run one by one.

    Args:
        profile (str, optional): ``'conv'``, ``'field'`` or ``'node'``.
            (default: :obj:`"conv"`)

    Returns:
        list: Name and function ``(factory, edge_inputs=None)`` of every
        check.

    Raises:
        ValueError: If there is no such profile.
    """
    if profile not in PROFILES:
        raise ValueError(
            f"'profile' must be one of {list(PROFILES)} (got {profile!r})"
        )
    return [
        (name, partial(_run, name, profile))
        for group in _GROUPS
        for name, (profiles, function) in CHECKS.items()
        if profile in profiles and function.__module__ == group.__name__
    ]


def _run(
    name: str,
    profile: str,
    factory: Callable[..., Module],
    edge_inputs: Mapping[str, EdgeInput] | None = None,
) -> None:
    _, function = CHECKS[name]
    try:
        with seeded():
            function(Subject(factory, profile, edge_inputs or {}))
    except Exception as error:
        reason = str(error)
        if not isinstance(error, ContractError):
            lines = reason.splitlines() or ['']  # compilers write pages
            reason = f'{type(error).__name__}: {lines[0]}'
        raise ContractError(f"check '{name}': {reason}") from error
