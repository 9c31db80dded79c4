"""Commands and their help: common options stand apart, lists have whole sentences; a group imports what is called."""

import gc
import importlib
import os
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from encoders.console import Console
from encoders.phrases import did_you_mean

_BRIEF = {"demo", "index", "search", "similar", "serve", "status", "delete"}
_FURTHER = {
    "calibration", "hybrid", "rerank", "device", "facets", "encoders", "methods", "encoding", "store", "database",
    "debug", "broker", "rebuild", "no_calibration", "on_duplicate", "decided", "watched", "every", "threads",
}  # fmt: skip
"""Options of the ``_BRIEF`` commands that ``--help`` leaves to ``--help --all``."""
_MAY_BE_EMPTY = {"document_prefix", "query_prefix", "text", "to"}
"""Parameters that may be empty, or whose empty value is refused with a sentence of its own."""
_FURTHER_SECTIONS = {"Upkeep", "Elasticsearch", "Workers", "Research"}
_ALL = "dragoman.all"
"""Key of a context's ``meta`` that asks for all of its help."""


class CommonOption(click.Option):
    """An option that nearly every command has, listed after the command's own."""


class Command(click.Command):
    """A command whose help lists the common options last, in a section of their own, and with ``--all`` every one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. Raises BadParameter: a value is empty, which would mean a default or this folder."""
        given, _, order = self.make_parser(ctx).parse_args([*args])
        for parameter in order:
            value = given[parameter.name]
            if "" in (value if isinstance(value, list | tuple) else [value]) and parameter.name not in _MAY_BE_EMPTY:
                raise click.BadParameter("the value is empty; is a variable not set?", ctx, parameter)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the common options with ``--help``."""
        help_option = self.get_help_option(ctx)
        further = _FURTHER if ctx.info_name in _BRIEF and not ctx.meta.get(_ALL) else set()
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option) and one.name not in further]
        common = [option for option in options if isinstance(option, CommonOption) or option is help_option]
        own = [option for option in options if option not in common]
        for title, listed in (("Options", own), ("Common options", common)):
            if records := [record for option in listed if (record := option.get_help_record(ctx))]:
                with formatter.section(title):
                    formatter.write_dl(records)
        if further:
            formatter.write(f"\nFurther options: {ctx.command_path} --help --all\n")


class Group(click.Group):
    """A group of such commands, whose help has the first sentence of each command in full."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their sentences."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _sentence(command)) for name, command in commands if command])


class LazyGroup(Group):
    """A group that lists and completes its commands without importing them.

    Each command is ``command`` in the module of its name in ``package``, or has its own name in another module by
    ``modules``. ``sections`` has a line on each command, by the titles of the sections in the group's help.
    """

    def __init__(
        self,
        *arguments: Any,
        package: str,
        sections: Mapping[str, Mapping[str, str]],
        modules: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.package, self.sections, self.modules = package, sections, modules or {}
        self.lines = {name: line for lines in sections.values() for name, line in lines.items()}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:  # noqa: D102
        if "--all" in args[-2:] and {"-h", "--help"} & {*args[-2:]}:
            ctx.meta[_ALL] = True
            args = [*args[:-2], "--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002, D102
        if cmd_name not in self.lines:
            return None
        module = importlib.import_module(f"{self.package}.{self.modules.get(cmd_name, cmd_name).replace('-', '_')}")
        gc.freeze()  # modules stay: to look for garbage in them, here and at the end, took a quarter of a short command
        gc.enable()
        command: click.Command = getattr(module, cmd_name if cmd_name in self.modules else "command")
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: D102
        width = max(map(len, self.lines))
        for title, lines in self.sections.items():
            if title in _FURTHER_SECTIONS and not ctx.meta.get(_ALL):
                continue
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in lines.items()])

        listed = ", ".join(title.lower() for title in self.sections if title in _FURTHER_SECTIONS)
        if listed and not ctx.meta.get(_ALL):
            formatter.write(f"\nFurther commands ({listed}): {ctx.command_path} --help --all\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: D102
        items = [CompletionItem(name, help=line) for name, line in self.lines.items() if name.startswith(incomplete)]
        return items or click.Command.shell_complete(self, ctx, incomplete)


def _sentence(command: click.Command) -> str:
    return command.short_help or " ".join((command.help or "").partition("\n\n")[0].split())
