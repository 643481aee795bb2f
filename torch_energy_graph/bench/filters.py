"""Parts of a benchmark: ``--only dataset=tolokers,model=et``."""

from collections.abc import Sequence

from torch_energy_graph.bench.coerce import ConfigError, did_you_mean
from torch_energy_graph.bench.store import Unit

__all__ = ['select']

KEYS = ('dataset', 'model', 'protocol', 'split', 'seed')


def select(units: Sequence[Unit], filters: Sequence[str]) -> list[Unit]:
    """Return the units that one of the filters lets through.

    Args:
        units (sequence of Unit): All units, in order.
        filters (sequence of str): ``key=value,key=value`` each: all must
            hold; ``value`` may be several names with ``|`` between. Without
            filters, all units pass.

    Raises:
        ConfigError: If a key or a value fits no unit.
    """
    if not filters:
        return list(units)
    wanted = [_parse(text, units) for text in filters]
    return [
        unit
        for unit in units
        if any(
            all(str(getattr(unit, key)) in values for key, values in f.items())
            for f in wanted
        )
    ]


def _parse(text: str, units: Sequence[Unit]) -> dict[str, set[str]]:
    where, parsed = f"--only '{text}'", {}
    for part in text.split(','):
        key, equals, values = part.partition('=')
        if not equals or key not in KEYS:
            raise ConfigError(
                f"{where}: expected 'key=value,...' with the keys "
                f'{", ".join(KEYS)} (got {part!r})'
            )
        known = {str(getattr(unit, key)) for unit in units}
        parsed[key] = set(values.split('|'))
        for value in sorted(parsed[key] - known):
            raise ConfigError(
                f"{where}: no unit has {key} '{value}'; "
                f'{did_you_mean(value, known)}'
            )
    return parsed
