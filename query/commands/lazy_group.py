"""A group of commands, each imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that lists its commands without importing them.

    Each command is ``command`` in the module of its name in ``package``. ``lines`` has a line on each command, in the
    order of the list.
    """

    def __init__(self, *arguments: Any, package: str, lines: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.package, self.lines = package, lines

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002, D102
        if cmd_name not in self.lines:
            return None
        module = importlib.import_module(f"{self.package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        command.short_help = self.lines[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002, D102
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))
