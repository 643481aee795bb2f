"""Benchmark configurations: frozen dataclasses and one strict loader."""

import dataclasses
import os
import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml

from torch_energy_graph.bench.coerce import ConfigError, coerce
from torch_energy_graph.bench.tuning import Tuning

__all__ = ['BenchConfig', 'Group', 'load_config', 'read_tree', 'typed']

NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.]*')


@dataclasses.dataclass(frozen=True)
class Group:
    """Datasets that share a protocol and its splits.

    Args:
        datasets (tuple[str, ...]): Names of datasets.
        protocol (str): Name of a protocol.
        splits (tuple[int, ...]): Indices of the protocol's splits.
        seeds (tuple[int, ...], optional): Seeds of the models; those of the
            benchmark if :obj:`None`. (default: :obj:`None`)
    """

    datasets: tuple[str, ...]
    protocol: str
    splits: tuple[int, ...]
    seeds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for key in ('datasets', 'splits', 'seeds'):
            if getattr(self, key) == ():
                raise ConfigError(f"'{key}': expected at least one (got none)")
        if min(self.splits) < 0:
            raise ConfigError(
                f"'splits': expected indices >= 0 (got {min(self.splits)})"
            )


@dataclasses.dataclass(frozen=True)
class BenchConfig:
    """A benchmark: every model on every split of every dataset.

    Args:
        name (str): Name of the run; its results lie in ``runs/<name>``
            unless told otherwise.
        groups (tuple[Group, ...]): What the models are run on.
        models (dict[str, dict[str, Any]]): Parameters by model name, checked
            against the model's signature.
        seeds (tuple[int, ...], optional): Seeds of the models.
            (default: :obj:`(0,)`)
        tuning (Tuning, optional): Which parameters are chosen on validation
            nodes. (default: :obj:`None`)
    """

    name: str
    groups: tuple[Group, ...]
    models: dict[str, dict[str, Any]]
    seeds: tuple[int, ...] = (0,)
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        for key in ('groups', 'models', 'seeds'):
            if not getattr(self, key):
                raise ConfigError(f"'{key}': expected at least one (got none)")
        if NAME.fullmatch(self.name) is None:
            raise ConfigError(
                "'name': expected letters, digits, '_' and '.' "
                f"(got '{self.name}')"
            )


class _StrictLoader(yaml.SafeLoader):
    """Scalars stay strings (types are declared elsewhere), keys are unique."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise ConfigError(f"line {line}: the key '{key}' stands twice")
        return super().construct_mapping(node, deep)


def load_config(
    path: str | os.PathLike[str], overrides: Sequence[str] = ()
) -> BenchConfig:
    """Read a benchmark configuration.

    Args:
        path (str or PathLike): A YAML file.
        overrides (sequence of str, optional): ``a.b=c`` each, applied in
            order before the file is checked; ``c`` is YAML.
            (default: :obj:`()`)

    Raises:
        ConfigError: With file, key and what was expected.
    """
    tree = read_tree(path, overrides)
    # A model without parameters may be written `logreg:`.
    if isinstance(tree, dict) and isinstance(tree.get('models'), dict):
        models = tree['models'].items()
        tree['models'] = {k: {} if v == '' else v for k, v in models}
    config: BenchConfig = typed(tree, BenchConfig, path)
    return config


def read_tree(
    path: str | os.PathLike[str], overrides: Sequence[str] = ()
) -> Any:
    """Read a YAML file in which all scalars stay strings."""
    try:
        text = Path(path).read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read '{path}': {error}") from error
    tree = _unshared(_parse(text, str(path)))
    for override in overrides:
        _set(tree, override)
    return tree


def typed(tree: Any, kind: type, path: str | os.PathLike[str]) -> Any:
    """Return what a file holds as a dataclass, or name file and key."""
    try:
        return coerce(tree, kind, str(path))
    except ConfigError as error:
        if str(error).startswith(str(path)):
            raise
        raise ConfigError(f'{path}: {error}') from None


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except ConfigError as error:
        raise ConfigError(f'{where}: {error}') from None
    except yaml.YAMLError as error:
        message = ' '.join(str(error).split())
        raise ConfigError(f'{where}: not valid YAML: {message}') from None


def _unshared(tree: Any) -> Any:
    """Copy what anchors share, so that an override changes one place."""
    if isinstance(tree, dict):
        return {key: _unshared(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_unshared(value) for value in tree]
    return tree


def _set(tree: Any, override: str) -> None:
    """Set one value in the parsed tree; lists are indexed by number."""
    path, equals, text = override.partition('=')
    where = f"--set '{override}'"
    if not equals or not path:
        raise ConfigError(f"{where}: expected 'key.subkey=value'")
    *parents, last = path.split('.')
    node = tree
    for key in parents:
        node = _child(node, key, where)
    if isinstance(node, list):
        node[_position(node, last, where)] = _parse(text, where)
    elif isinstance(node, dict):
        node[last] = _parse(text, where)
    else:
        raise ConfigError(f"{where}: nothing to set '{last}' in")


def _child(node: Any, key: str, where: str) -> Any:
    if isinstance(node, list):
        return node[_position(node, key, where)]
    if isinstance(node, dict):
        if node.get(key, '') == '':
            node[key] = {}
        return node[key]
    raise ConfigError(f"{where}: nothing lies below '{key}'")


def _position(node: list[Any], key: str, where: str) -> int:
    if not key.isdecimal() or int(key) >= len(node):
        raise ConfigError(
            f'{where}: expected an index below {len(node)} (got {key!r})'
        )
    return int(key)
