"""The options that say how sources are read, the same for every command that reads some."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from indexer.readers import FORMATS, ReadOptions


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format``, ``--field``, ``--lang`` and ``--encoding``; the command gets them as ``options``."""

    @functools.wraps(command)
    def with_options(*, format_: str | None, fields: tuple[str, ...], lang: str, encoding: str, **others: Any) -> Any:
        options = ReadOptions(format=format_ or "", fields=_pairs(fields), lang=lang, encoding=encoding)
        return command(options=options, **others)

    options = (
        click.option(
            "--encoding", default="", help="Character encoding of the files.  [default: UTF-8, then what they declare]"
        ),
        click.option("--lang", default="", help="Language of records that name none.  [default: detected]"),
        click.option(
            "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="Name of a field in the source: text=body."
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            help="Format of the files.  [default: by name and first bytes]",
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, with_options)


def _pairs(fields: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for field in fields:
        ours, equals, theirs = field.partition("=")
        if not (ours and equals and theirs):
            raise click.UsageError(f"--field takes OURS=THEIRS, as in --field text=body, not {field!r}")
        pairs[ours] = theirs
    return pairs
