"""Ctrl-C and SIGTERM as a wish to stop at the next good moment."""

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer

__all__ = ['interruptible', 'stop_training']


@contextmanager
def interruptible(unit: str) -> Iterator[list[int]]:
    """Collect the first Ctrl-C or SIGTERM; a second one stops at once.

    Args:
        unit (str): What is finished before stopping, for the message.
    """
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        typer.echo(f'Stopping after this {unit} ...', err=True)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, note) for number in signals}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_training(
    command: str, config: Path, folder: Path, override: Sequence[str]
) -> NoReturn:
    """Say how an interrupted training goes on, and end with 130.

    Args:
        command (str): Its words, such as 'teg train'.
        config (Path): The configuration.
        folder (Path): Where the state is.
        override (sequence of str): What was given with --set.
    """
    parts = [*command.split(), str(config), '--out', str(folder)]
    for text in override:
        parts += ['--set', text]
    typer.echo(
        f'Interrupted; the last saved state is in {folder}. Go on with the '
        f'same command: {shlex.join(parts)}',
        err=True,
    )
    raise typer.Exit(130)
