"""Folders of tables on the command line."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

if TYPE_CHECKING:
    from torch_energy_graph.data.tables import TableLayout

__all__ = [
    'LayoutFields',
    'Separator',
    'holds_tables',
    'is_table_folder',
    'layout_of',
    'with_fields',
]

LayoutFields = Annotated[
    list[str] | None,
    typer.Option(
        '--set',
        metavar='FIELD=VALUE',
        help='A field of TableLayout, such as label=fraud or ignore=a,b.',
    ),
]
Separator = Annotated[
    str, typer.Option('--sep', help='What separates the cells of CSV files.')
]


def holds_tables(name: str) -> bool:
    """Whether a name is a folder with a node table."""
    return any(Path(name).glob('nodes.*'))


def is_table_folder(name: str) -> bool:
    """Whether a name is a folder with a node table, or can only be a path."""
    return holds_tables(name) or len(Path(name).parts) > 1


def layout_of(folder: Path, fields: Sequence[str]) -> 'TableLayout':
    """The layout of a folder: its ``layout.json``, then ``FIELD=VALUE``."""
    from torch_energy_graph.data.tables.layout import read_layout

    return with_fields(read_layout(folder / 'layout.json'), fields)


def with_fields(layout: 'TableLayout', fields: Sequence[str]) -> 'TableLayout':
    """A layout with some fields replaced, ``FIELD=VALUE``."""
    from torch_energy_graph.bench.coerce import (
        ConfigError,
        coerce,
        did_you_mean,
    )
    from torch_energy_graph.data.tables.layout import TableLayout

    types = get_type_hints(TableLayout)
    given = {}
    for text in fields:
        name, equals, value = text.partition('=')
        if not equals or name not in types:
            raise ConfigError(
                f"--set '{text}': expected FIELD=VALUE; "
                f'{did_you_mean(name, types)}'
            )
        many = types[name] == tuple[str, ...]
        parts = value.split(',') if many else value
        given[name] = coerce(parts, types[name], f"--set '{text}'")
    return replace(layout, **given)
