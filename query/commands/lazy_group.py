"""A group of commands, each imported when it is called."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from encoders.console import Console
from encoders.wording import did_you_mean
from query.commands.help import Group


class LazyGroup(Group):
    """A group that lists and completes its commands without importing them.

    Each command is ``command`` in the module of its name in ``package``. ``sections`` has a line on each command, by
    the titles of the sections in the group's help.
    """

    def __init__(
        self, *arguments: Any, package: str, sections: Mapping[str, Mapping[str, str]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.package, self.sections = package, sections
        self.lines = {name: line for lines in sections.values() for name, line in lines.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002, D102
        if cmd_name not in self.lines:
            return None
        module = importlib.import_module(f"{self.package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        command.short_help = self.lines[cmd_name]
        return command

    def resolve_command(  # noqa: D102
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.lines and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name!r}{did_you_mean(name, self.lines)}")
        quiet = ctx.resilient_parsing or bool({"-q", "--quiet", "-h", "--help"} & set(args))
        with Console(quiet=quiet or bool(os.environ.get("DRAGOMAN_QUIET"))).waiting("starting"):
            return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002, D102
        width = max(map(len, self.lines))
        for title, lines in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in lines.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: D102
        items = [CompletionItem(name, help=line) for name, line in self.lines.items() if name.startswith(incomplete)]
        return items or click.Command.shell_complete(self, ctx, incomplete)
