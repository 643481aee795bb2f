"""Values of a configuration file, turned into the types that code declares.

YAML guesses: ``1e-3`` becomes a string, ``no`` becomes false and ``010``
becomes 8. Here the declared type decides and nothing is guessed; what does
not fit raises :class:`ConfigError` with the place and the expected type.
"""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ['ConfigError', 'Field', 'coerce', 'coerce_fields', 'did_you_mean']

NULLS = ('', '~', 'null')
BOOLS = {'true': True, 'yes': True, 'on': True} | {
    'false': False,
    'no': False,
    'off': False,
}


class ConfigError(ValueError):
    """A configuration that cannot be run; the message says how to mend it."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class Field:
    """Declared type and default of one key; no default means required."""

    type: Any
    default: Any = dataclasses.MISSING


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest of the known names."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f'known: {", ".join(known) or "none"}'


def coerce_fields(
    values: Any, fields: Mapping[str, Field], where: str
) -> dict[str, Any]:
    """Check a mapping against declared fields and fill in the defaults."""
    if not isinstance(values, Mapping):
        raise ConfigError(f'{where}: expected a mapping (got {values!r})')
    for key in values:
        if key not in fields:
            hint = did_you_mean(str(key), fields)
            raise ConfigError(f"{where}: unknown key '{key}'; {hint}")
    result = {}
    for key, field in fields.items():
        if key in values:
            place = f'{where}.{key}'
            result[key] = coerce(values[key], field.type, place)
        elif field.default is dataclasses.MISSING:
            raise ConfigError(f"{where}: expected the key '{key}'")
        else:
            result[key] = field.default
    return result


def coerce(value: Any, declared: Any, where: str) -> Any:
    """Return the value as the declared type.

    Args:
        value (Any): A string as it stands in the file, a list or mapping of
            such, or a value that has its type already.
        declared (Any): ``bool``, ``int``, ``float``, ``str``, a dataclass,
            ``tuple[X, ...]``, ``dict[str, X]``, a ``Literal``, a union of
            those, or ``Any``.
        where (str): File and key, for the error message.
    """
    origin = typing.get_origin(declared)
    if declared is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _coerce_union(value, typing.get_args(declared), where)
    if origin is typing.Literal:
        return _coerce_literal(value, typing.get_args(declared), where)
    if origin is tuple:
        return _coerce_tuple(value, typing.get_args(declared)[0], where)
    if origin is dict:
        return _coerce_dict(value, typing.get_args(declared)[1], where)
    if dataclasses.is_dataclass(declared) and isinstance(declared, type):
        return declared(**coerce_fields(value, _fields(declared), where))
    try:
        return _SCALARS[declared](value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f'{where}: expected {declared.__name__} (got {value!r})'
        ) from None


def _fields(declared: type) -> dict[str, Field]:
    hints = typing.get_type_hints(declared)
    return {
        field.name: Field(hints[field.name], field.default)
        for field in dataclasses.fields(declared)
    }


def _coerce_union(value: Any, members: tuple[Any, ...], where: str) -> Any:
    if type(None) in members and (value is None or value in NULLS):
        return None
    members = tuple(m for m in members if m is not type(None))
    errors = []
    for member in members:
        try:
            return coerce(value, member, where)
        except ConfigError as error:
            errors.append(str(error))
    if len(members) == 1:
        raise ConfigError(errors[0])
    reasons = ' or '.join(e.removeprefix(f'{where}: ') for e in errors)
    raise ConfigError(f'{where}: {reasons}')


def _coerce_literal(value: Any, allowed: tuple[Any, ...], where: str) -> Any:
    if value not in allowed:
        names = ', '.join(repr(name) for name in allowed)
        raise ConfigError(f'{where}: expected one of {names} (got {value!r})')
    return value


def _coerce_tuple(value: Any, member: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f'{where}: expected a list (got {value!r})')
    return tuple(
        coerce(item, member, f'{where}[{i}]') for i, item in enumerate(value)
    )


def _coerce_dict(value: Any, member: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f'{where}: expected a mapping (got {value!r})')
    return {
        str(key): coerce(item, member, f'{where}.{key}')
        for key, item in value.items()
    }


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in BOOLS:
        return BOOLS[value.lower()]
    raise ValueError


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


_SCALARS: dict[Any, Any] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
}
