"""Options of sources: how they are read, and aligned documents of sources or of a collection."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from query.commands.options import completion
from query.commands.options.common_options import collection_option, gathered
from query.commands.options.encoder_options import default_encoder_option, device_option, languages_option
from query.commands.options.option_types import PATH

sources_argument = click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCE… and ``-o/--output``, the folder that a training makes."""
    return sources_argument(click.option("-o", "--output", type=PATH, required=True, help="Folder to make.")(command))


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format``, ``--field``, ``--lang``, ``--encoding``, ``--strict`` and ``--follow-links``: ``options``."""
    from indexer.readers.formats import FORMATS  # noqa: PLC0415
    from indexer.readers.records.source import ReadOptions  # noqa: PLC0415

    def read_options(
        format_: str | None,
        fields: Sequence[str],
        lang: str,
        encodings: Sequence[str],
        strict: bool,
        follow_links: bool,
    ) -> ReadOptions:
        return ReadOptions(format_ or "", _field_names(fields), lang, ",".join(encodings), follow_links, strict)

    format_text = "Format of the files.  [default: by name and first bytes]"
    field_text = "Name of a field in the source: text=body."
    lang_text = "Language of records that name none.  [default: detected]"
    encoding_text = "Encoding of the files, or PATTERN=ENCODING: '*.old.txt=koi8-r'.  [default: found for each file]"
    return gathered(
        "options",
        read_options,
        click.option("--format", "format_", type=click.Choice(FORMATS), help=format_text),
        click.option("--field", "fields", multiple=True, metavar="OURS=THEIRS", help=field_text),
        click.option("--lang", default="", help=lang_text, shell_complete=completion.languages),
        click.option("--encoding", "encodings", multiple=True, metavar="ENCODING", help=encoding_text),
        click.option("--strict", is_flag=True, help="End with an error where an encoding must be guessed."),
        click.option("--follow-links", is_flag=True, help="Follow links out of SOURCEs."),
    )(command)


def aligned_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCE…, ``-c``, ``--languages``, ``--encoder``, ``--document-method``, ``--device``: ``aligned``.

    The command must also have ``reading_options`` and ``place_options``, whose values become part of ``aligned``.
    """
    from encoders.methods.method_registry import METHODS  # noqa: PLC0415
    from indexer.training.mapping_sources import AlignedSources  # noqa: PLC0415

    method_text = "How a document's vector is made."
    return gathered(
        "aligned",
        AlignedSources,
        click.argument("sources", nargs=-1, metavar="[SOURCE]…"),
        collection_option("Take a collection's vectors instead of SOURCEs.", "collection"),
        languages_option("Languages to take.  [default: all]"),
        default_encoder_option("For SOURCEs."),
        click.option("--document-method", "method", type=click.Choice(METHODS), help=method_text),
        device_option,
    )(command)


def _field_names(fields: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for pair in fields:
        field, equals, source_field = pair.partition("=")
        if not (field and equals and source_field):
            raise click.UsageError(f"--field takes OURS=THEIRS, as in --field text=body, not {pair!r}")
        pairs[field] = source_field
    return pairs
