"""Write docs/cli.md from the commands' own help: ``python docs/cli_page.py``. A test says whether it is up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from query.cli import root

_HEAD = """\
# Commands

Made from `--help` by `make docs`; edit the commands, not this page. Exit status: 0 done; 1 refused, with one sentence
on stderr; 2 wrong usage; 130 interrupted.

## Variables

An option overrides its variable; an empty variable counts as not set.

| variable | what |
|---|---|
| `DRAGOMAN_HOME`, `DRAGOMAN_STORE`, `DRAGOMAN_DATABASE` | `--home`, `--store`, `--database` |
| `DRAGOMAN_BROKER` | `--broker` |
| `DRAGOMAN_COLLECTION` | `-c` of %s |
| `DRAGOMAN_JSON`, `DRAGOMAN_QUIET`, `DRAGOMAN_DEBUG` | `--json`, `--quiet`, `--debug` |
| `DRAGOMAN_TOKENS` | `--tokens` of `serve` |
| `DRAGOMAN_TOKEN` | the token of a single reader of `serve`; no option |
| `DRAGOMAN_CACHE` | folder of models; no option; default: the platform's cache folder, `~/.cache/dragoman` on Linux |
| `DRAGOMAN_ELASTIC_USER` and `DRAGOMAN_ELASTIC_PASSWORD` | account in Elasticsearch, if the URL has none; no option |
| `DRAGOMAN_ELASTIC_API_KEY` | API key instead; no option |
| `DRAGOMAN_ELASTIC_CA` | file with the certificate of Elasticsearch's CA; no option |
| `DRAGOMAN_ELASTIC_URL` | server of a source `elastic:INDEX`; no option |
"""
_COMMON = """\
## Common options

Below, each command names the common options that it has; `all` are these.

```
%s```
"""
_COMMON_OPTIONS = re.compile(r"^Common options:\n((?: {2}.*(?:\n|$))+)", re.MULTILINE)


def page() -> str:
    """The page as it should be."""
    commands = list(_walk("dragoman", root))
    helps = [(path, _help(path, command)) for path, command in commands]
    blocks = [match[1] for _, text in helps if (match := _COMMON_OPTIONS.search(text))]
    parts = [_HEAD % _with_collection_variable(commands), _COMMON % max(blocks, key=len)]
    common = _names(max(blocks, key=len))
    parts += [
        f"## {path}\n\n```\n{_COMMON_OPTIONS.sub(partial(_line, common), text).rstrip()}\n```\n" for path, text in helps
    ]
    return "\n".join(parts)


def _with_collection_variable(commands: list[tuple[str, click.Command]]) -> str:
    """Names of the commands whose collection a variable may name, as Markdown."""
    names = [
        f"`{path.removeprefix('dragoman ')}`"
        for path, command in commands
        if any(parameter.envvar == "DRAGOMAN_COLLECTION" for parameter in command.params)
    ]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _help(path: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=path, max_content_width=100, terminal_width=100, help_option_names=["-h", "--help"]
    )
    context.meta["dragoman.all"] = True
    return f"{command.get_help(context)}\n"


def _line(common: list[str], block: re.Match[str]) -> str:
    """One line with the names of common options, in place of their help."""
    names = _names(block[1])
    return f"Common options: {'all' if names == common else ', '.join(names)}\n"


def _names(block: str) -> list[str]:
    """Names of a block of options."""
    return re.findall(r"^  (?:-., )?(--[a-z]+)", block, re.MULTILINE)


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
