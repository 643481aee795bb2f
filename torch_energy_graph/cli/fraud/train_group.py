"""``teg train FOLDER`` beside ``teg train FILE``."""

from pathlib import Path
from typing import Any

from torch_energy_graph.cli.default_group import DefaultGroup
from torch_energy_graph.cli.tables import holds_tables

__all__ = ['TrainGroup']


class TrainGroup(DefaultGroup):
    """Passes folders to the command ``tables``, and files to the first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of a command where none stands."""
        if args and args[0] not in self.commands:
            # a folder may stand behind options, whose values may be folders
            folder = Path(args[0]).is_dir() or any(map(holds_tables, args))
            args = ['tables', *args] if folder else args
        rest: list[str] = super().parse_args(ctx, args)
        return rest
