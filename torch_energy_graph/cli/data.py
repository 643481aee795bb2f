"""``teg data``: what datasets there are and what is in them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from torch_energy_graph.cli.output import Json, print_json
from torch_energy_graph.cli.tables import (
    LayoutFields,
    Separator,
    is_table_folder,
    layout_of,
)

__all__ = ['app']

app = typer.Typer(help='Show datasets.', no_args_is_help=True)
Root = Annotated[
    Path | None,
    typer.Option(help='Folder that is searched before the usual ones.'),
]


@app.command('list')
def list_command(root: Root = None, json: Json = False) -> None:
    """List the datasets that are on this machine."""
    from torch_energy_graph import datasets

    cards = datasets.available(root)
    if json:
        print_json([dataclasses.asdict(card) for card in cards])
        return
    for card in cards:
        where = card.path or 'embedded'
        typer.echo(f'{card.name:24}{card.task:16}{where}')


@app.command('info')
def info_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar='NAME|FOLDER',
            help='A dataset, or a folder with nodes.csv and edges.csv.',
        ),
    ],
    root: Root = None,
    fields: LayoutFields = None,
    sep: Separator = ',',
    json: Json = False,
) -> None:
    """Show counts, prevalence, homophily, licence and known traps.

    Of a folder: the data card of its tables, with warnings of leaks.
    """
    from torch_energy_graph import datasets

    if is_table_folder(name):
        found = _card(Path(name), fields or (), sep)
    elif fields:
        raise typer.BadParameter("'--set' is for folders of tables")
    else:
        found = datasets.info(name, root)
    if json:
        print_json(found)
        return
    for key, value in found.items():
        for line in _lines(key, value):
            typer.echo(line)


def _card(folder: Path, fields: Sequence[str], sep: str) -> dict[str, Any]:
    from torch_energy_graph.data.card import data_card
    from torch_energy_graph.data.from_csv import from_folder

    # a card counts the ids that only edges name, where training refuses them
    fields = ('missing_nodes=add', *fields)
    table = from_folder(folder, layout_of(folder, fields), sep)
    return {'name': str(folder), 'task': 'anomaly', **data_card(table)}


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, dict) and key == 'degree':
        parts = [f'{name} {_text(part)}' for name, part in value.items()]
        return [f'{key:20}{", ".join(parts)}']
    if key == 'warnings' or (
        isinstance(value, list) and any(isinstance(v, dict) for v in value)
    ):
        return ['', f'{key}:', *(f'  {_item(item)}' for item in value)]
    return [f'{key:20}{_text(value)}']


def _item(item: dict[str, Any] | str) -> str:
    if isinstance(item, str):
        return f'- {item}'
    name, *rest = item.items()
    told = [f'{key} {_text(value)}' for key, value in rest]
    return f'{name[1]:20}{", ".join(told)}'


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return '; '.join(str(item) for item in value)
    return f'{value:.4g}' if isinstance(value, float) else str(value)
