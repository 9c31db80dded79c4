"""Options of searches, and of topics and judgements."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from indexer.stores.field_filters import as_number
from query.commands.options import completion
from query.commands.options.common_options import gathered
from query.commands.options.encoder_options import rerank_option
from query.commands.options.option_types import Decorator, Number, default_option

filter_option = click.option(
    "--filter",
    "filters",
    multiple=True,
    callback=lambda _context, _option, pairs: _filters(pairs),
    metavar="FIELD=VALUE",
    help="Only documents whose field has the value, or lies in a range: 'year>=1990'.",
)
"""``--filter``; the command gets ``filters``, the wanted values by field, or none."""
pairs_option = click.option("--pairs", is_flag=True, help="Score each language of documents by itself, too.")


def limit_option(what: str) -> Decorator:
    """``-k/--limit``, 10 unless given, of ``what`` there may be many."""
    return default_option("-k", click.IntRange(1, 10_000), 10, f"How many {what}.", "--limit", "k")


def files_option(option: str, parameter: str, text: str, *, required: bool = False) -> Decorator:
    """An option that names files, folders or patterns and may be repeated."""
    return click.option(option, parameter, multiple=True, required=required, metavar="FILE", help=text)


def languages_of_option(option: str, text: str, **options: Any) -> Decorator:
    """An option that takes languages, which the shell completes."""
    return click.option(option, help=text, shell_complete=completion.languages, **options)


to_option = languages_of_option("--to", "Languages of documents.  [default: all of the collection's]", metavar="fr,it")
lexicons_option = click.option(
    "--lexicon",
    "lexicons",
    multiple=True,
    metavar="en-de=FILE",
    help="Rank by PSQ, too: BM25 with query translation by this file, or by the folder of a Cr5 model.",
)


def reading_topics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--lang`` and ``--encoding`` of topics."""
    encoding = "Encoding of the topics' files.  [default: UTF-8, then what they declare]"
    with_encoding = click.option("--encoding", default="", help=encoding)(command)
    return languages_of_option("--lang", "Language of topics that name none.", default="")(with_encoding)


def measures_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--measures`` with the default ones."""
    from query.measures.quality_measures import DEFAULT_MEASURES  # noqa: PLC0415

    default, text = " ".join(DEFAULT_MEASURES), "Names of ir-measures or trec_eval."
    return default_option("--measures", click.STRING, default, text)(command)


def compare_option(run_file: str) -> Decorator:
    """``--compare`` with a logged run or ``run_file``; the command gets ``compared_with``."""
    text = f"Compare with a logged run, or {run_file}."
    return click.option(
        "--compare", "compared_with", default="", metavar="RUN", help=text, shell_complete=completion.runs
    )


def ranking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--balance``, ``--calibration``, ``--hybrid`` and ``--rerank``; the command gets them as ``ranking``."""
    from query.ranking.ranking_options import RankingOptions  # noqa: PLC0415

    def ranking(calibration: str, balance: float | None, rerank: str | None, *, hybrid: bool) -> RankingOptions:
        return RankingOptions(calibration, balance, hybrid, rerank or "")

    balance = "0: nothing is balanced … 1: every language equal.  [default: the collection's]"
    calibration = "Rank by this one, or by none: plain cosine.  [default: the active]"
    hybrid = "Let shared words, names and numbers change the order within a language."
    return gathered(
        "ranking",
        ranking,
        click.option("--balance", type=Number(0, 1), metavar="0…1", help=balance),
        click.option("--calibration", default="", metavar="ID|none", help=calibration),
        click.option("--hybrid", is_flag=True, help=hybrid),
        rerank_option("Order the best 30 hits by this reranker: dragoman export of a cross-encoder."),
    )(command)


def _filters(pairs: Sequence[str]) -> dict[str, Any] | None:
    filters: dict[str, Any] = {}
    for pair in pairs:
        found = re.fullmatch(r"([^=]*[^=<>])(=|>=|<=)(.*)", pair, re.DOTALL)
        if not found:
            raise click.UsageError(
                f"--filter takes FIELD=VALUE, FIELD>=VALUE or FIELD<=VALUE, as in --filter label=news, not {pair!r}"
            )
        name, sign, value = found.groups()
        wanted = filters.setdefault(name, [] if sign == "=" else {})
        if isinstance(wanted, list) != (sign == "="):
            raise click.UsageError(f"--filter {pair!r} is a value and a range of {name}; give values or a range")
        if sign == "=":
            wanted.append(value)
        else:
            number = as_number(value)
            wanted["gte" if sign == ">=" else "lte"] = value if number is None else number
    return filters or None
