"""A group of commands, one of which needs no name."""

from typing import Any

from typer.core import TyperGroup

__all__ = ['DefaultGroup']


class DefaultGroup(TyperGroup):
    """Passes what starts with no command's name to the first command.

    So ``teg train FILE`` and ``teg train image FILE`` are both good.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the first command where none stands."""
        named = (*self.commands, '--help')
        if args and args[0] not in named:
            args = [next(iter(self.commands)), *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest
