"""Ctrl-C and SIGTERM as a wish to stop at the next good moment."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

__all__ = ['interruptible']


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
