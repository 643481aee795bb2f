"""Printing for people and for machines."""

import json
from typing import Annotated, Any

import typer

__all__ = ['Json', 'print_json']

Json = Annotated[
    bool, typer.Option('--json', help='Print JSON on standard output.')
]


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=1, default=str))
