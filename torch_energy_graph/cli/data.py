"""``teg data``: what datasets there are and what is in them."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from torch_energy_graph.cli.output import Json, print_json

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
    name: Annotated[str, typer.Argument(help='Name of a dataset.')],
    root: Root = None,
    json: Json = False,
) -> None:
    """Show counts, prevalence, homophily, licence and known traps."""
    from torch_energy_graph import datasets

    found = datasets.info(name, root)
    if json:
        print_json(found)
        return
    for key, value in found.items():
        typer.echo(f'{key:20}{_text(value)}')


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return '; '.join(str(item) for item in value)
    return f'{value:.4g}' if isinstance(value, float) else str(value)
