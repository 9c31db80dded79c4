"""Options that name a collection of retrieval between languages, language by language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from encoders.languages import language_list, normalise
from papers.hmde_clef import RetrievalData
from query.commands.options.common_options import gathered
from query.commands.options.option_types import FILLED, PATH, Decorator


def clef_options(*, required: bool) -> Decorator:
    """``--documents``, ``--qrels``, ``--topics`` and ``--langs``; the command gets ``retrieval``.

    ``retrieval`` is None if no documents are named, which only a command that requires them refuses.
    """
    return gathered(
        "retrieval",
        _retrieval_data,
        click.option(
            "--documents",
            callback=_by_language,
            multiple=True,
            required=required,
            metavar="LANG=PATH",
            help="Documents of each language.",
        ),
        click.option(
            "--qrels",
            type=FILLED,
            callback=_by_language,
            multiple=True,
            required=required,
            metavar="LANG=FILE",
            help="Judgements of these documents.",
        ),
        click.option(
            "--topics",
            type=PATH,
            multiple=True,
            required=required,
            metavar="FILE",
            help="Topics in all query languages.",
        ),
        click.option(
            "--langs", default="", metavar="LANG,…", help="Query languages.  [default: those of the documents, and en]"
        ),
    )


def _retrieval_data(
    documents: dict[str, list[str]], qrels: dict[str, list[str]], topics: tuple[Path, ...], langs: str
) -> RetrievalData | None:
    if documents.keys() != qrels.keys():
        raise click.UsageError("--documents and --qrels belong together; give both for each language")
    if bool(documents) != bool(topics):
        raise click.UsageError("--documents and --topics belong together; give both")
    if not documents:
        return None
    files = {lang: [Path(file) for file in lang_files] for lang, lang_files in qrels.items()}
    return RetrievalData.read(documents, files, topics, language_list(langs) or [*documents, "en"])


def _by_language(_context: click.Context, option: click.Parameter, values: Sequence[str]) -> dict[str, list[str]]:
    """Paths by language, from values LANG=PATH; a language may have several."""
    by_lang: dict[str, list[str]] = {}
    for value in values:
        lang, equals, path = value.partition("=")
        if not (lang and equals and path):
            raise click.BadParameter(f"{value!r} is not LANG=PATH, as in de=fr94", param=option)
        by_lang.setdefault(normalise(lang), []).append(path)
    return by_lang
