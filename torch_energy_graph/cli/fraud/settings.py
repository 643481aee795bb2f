"""What ``--set``, ``--threshold`` and ``--calibration`` mean."""

import inspect
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from torch_energy_graph.detect import EnergyFraudDetector

__all__ = [
    'Calibration',
    'Method',
    'Settings',
    'Threshold',
    'detector_of',
    'layout_fields',
]


class Method(str, Enum):
    """How probabilities are calibrated."""

    SIGMOID = 'sigmoid'
    TEMPERATURE = 'temperature'
    ISOTONIC = 'isotonic'
    NONE = 'none'


Settings = Annotated[
    list[str] | None,
    typer.Option(
        '--set',
        metavar='KEY=VALUE',
        help='A field of TableLayout, such as label=fraud, or a parameter of '
        'EnergyFraudDetector, such as epochs=20.',
    ),
]
Threshold = Annotated[
    str,
    typer.Option(
        metavar='TARGET',
        help='What decisions aim at: macro_f1, fbeta=2, top=100 (nodes), '
        'cost=10 (of a missed anomaly, in false alarms), budget=0.01 (share '
        'of alarms), or a probability.',
    ),
]
Calibration = Annotated[
    Method, typer.Option(help='How probabilities are calibrated.')
]

# parameters that have options of their own
_OPTIONS = {
    'threshold': '--threshold',
    'calibration': '--calibration',
    'random_state': '--seed',
}


def layout_fields(settings: Sequence[str]) -> list[str]:
    """Those of the settings that are fields of a layout."""
    from torch_energy_graph.data.tables import TableLayout

    names = get_type_hints(TableLayout)
    return [text for text in settings if text.partition('=')[0] in names]


def detector_of(
    settings: Sequence[str], threshold: str, calibration: Method, seed: int
) -> 'EnergyFraudDetector':
    """An unfitted detector.

    Raises:
        ConfigError: If a setting is neither of a detector nor of a layout, or
            its value does not fit.
    """
    from torch_energy_graph.bench.coerce import (
        ConfigError,
        coerce,
        did_you_mean,
    )
    from torch_energy_graph.data.tables import TableLayout
    from torch_energy_graph.detect import EnergyFraudDetector

    types = get_type_hints(EnergyFraudDetector.__init__)
    known = [*inspect.signature(EnergyFraudDetector).parameters]
    fields = get_type_hints(TableLayout)
    params: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition('=')
        if name in fields and equals:
            continue
        if name in _OPTIONS:
            raise ConfigError(f"--set '{text}': use {_OPTIONS[name]}")
        if not equals or name not in known:
            raise ConfigError(
                f"--set '{text}': expected KEY=VALUE; "
                f'{did_you_mean(name, [*known, *fields])}'
            )
        params[name] = coerce(value, types[name], f"--set '{text}'")
    return EnergyFraudDetector(
        **params,
        threshold=_target(threshold),
        calibration=None if calibration == Method.NONE else calibration.value,
        random_state=seed,
    )


def _target(text: str) -> Any:
    from torch_energy_graph.bench.coerce import ConfigError, coerce
    from torch_energy_graph.detect import AlertBudget, CostMatrix, FBeta, TopK

    name, equals, value = text.partition('=')
    where = f"--threshold '{text}'"
    if not equals:
        if name == 'macro_f1':
            return name
        return coerce(name, float, where)
    if name == 'top':
        return TopK(coerce(value, int, where))
    number = coerce(value, float, where)
    if name == 'fbeta':
        return FBeta(number)
    if name == 'cost':
        return CostMatrix(((0, 1), (number, 0)))
    if name == 'budget':
        return AlertBudget(number)
    raise ConfigError(
        f'{where}: expected macro_f1, fbeta=, top=, cost=, budget= or a '
        f'probability'
    )
