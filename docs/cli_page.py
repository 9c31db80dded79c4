"""Write docs/cli.md from the commands' own help: ``python docs/cli_page.py``. A test says whether it is up to date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from query.cli import root

_HEAD = """\
# Commands

Made from `--help` by `make docs`; edit the commands, not this page. Every option that names a place has a `DRAGOMAN_*`
variable; an empty variable counts as not set. Exit status: 0 done; 1 refused, with one sentence on stderr; 2 wrong
usage; 130 interrupted.
"""


def page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for path, command in _walk("dragoman", root):
        context = click.Context(
            command, info_name=path, max_content_width=100, terminal_width=100, help_option_names=["-h", "--help"]
        )
        parts.append(f"## {path}\n\n```\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def _walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _walk(f"{path} {name}", found)


if __name__ == "__main__":
    (Path(__file__).parent / "cli.md").write_text(page(), encoding="utf-8")
