"""The help of commands: options that every command has stand apart, and lists of commands have whole sentences."""

from __future__ import annotations

from collections.abc import Sequence

import click

_COMMON = "Common options"


class CommonOption(click.Option):
    """An option that nearly every command has, listed after the command's own."""


class Command(click.Command):
    """A command whose help lists the common options last, in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the common options with ``--help``."""
        help_option = self.get_help_option(ctx)
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        common = [option for option in options if isinstance(option, CommonOption) or option is help_option]
        _write_options("Options", [option for option in options if option not in common], ctx, formatter)
        _write_options(_COMMON, common, ctx, formatter)


class Group(click.Group):
    """A group of such commands, whose help has the first sentence of each command in full."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their sentences."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _sentence(command)) for name, command in commands if command])


def _write_options(
    title: str, options: Sequence[click.Option], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    records = [record for option in options if (record := option.get_help_record(ctx))]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def _sentence(command: click.Command) -> str:
    """The line on a command: its short help, or the first paragraph of its help."""
    return command.short_help or " ".join((command.help or "").partition("\n\n")[0].split())
