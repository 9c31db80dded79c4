"""``dragoman search``: ranked hits in every language, the matching passage under each."""

from __future__ import annotations

from dataclasses import asdict

import click

from encoders.console import Console
from encoders.languages import normalise, typed_languages
from encoders.machine.placement import Device
from indexer.collection.settings import Settings
from query.commands import completion
from query.commands.help import Command
from query.commands.options import collection_option, common_options, device_option, filter_option, ranking_options
from query.commands.output.hits import score_formula, show_detected, show_facets, show_hits, show_unread
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import as_json


def _one_text(ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> str:
    """The query; several words without quotes are refused."""
    if len(texts) > 1:
        raise click.UsageError(f'put the query in quotes: "{" ".join(texts)}"', ctx)
    return "".join(texts)


@click.command("search", cls=Command)
@click.argument("text", nargs=-1, required=True, metavar="TEXT", callback=_one_text)
@collection_option("The collection to search.")
@click.option(
    "--lang",
    help="Language of the query.  [default: detected among the collection's]",
    shell_complete=completion.languages,
)
@click.option(
    "--to",
    help="Languages of documents, with commas: en,fr.  [default: all of the collection's]",
    shell_complete=completion.languages,
)
@click.option(
    "-k", "--limit", "k", type=click.IntRange(1, 10_000), default=10, show_default=True, help="How many hits."
)
@filter_option
@ranking_options
@click.option(
    "--prefer",
    default="",
    metavar="LANG,…",
    help="Show each subject in the first of these languages that has it.  [default: the query's language]",
    shell_complete=completion.languages,
)
@click.option("--flat", is_flag=True, help="Show every document as a hit of its own, also those about the same thing.")
@click.option(
    "--facets",
    default="",
    metavar="lang,FIELD,…",
    help="Count the documents shown, or with --flat the best 50, by language and by the values of fields.",
)
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@device_option
@common_options
def command(
    text: str,
    name: str,
    lang: str | None,
    to: str | None,
    k: int,
    filters: dict[str, list[str]] | None,
    ranking: RankingOptions,
    prefer: str,
    flat: bool,
    facets: str,
    explain: bool,
    device: Device,
    settings: Settings,
    console: Console,
) -> None:
    """Find the documents that answer TEXT, whatever their language, best first.

    Documents about the same thing in several languages are one hit.
    """
    if flat and prefer:
        raise click.UsageError("--flat shows every version of a subject; leave --prefer out")
    stated_language = normalise(lang or "")
    to_languages, preferred = None if to is None else typed_languages(to), typed_languages(prefer)
    with console.waiting("starting"):  # a second of imports
        from query.ranking.query_encoder import require_query  # noqa: PLC0415
        from query.ranking.searcher import Searcher  # noqa: PLC0415

    require_query(text)
    with Searcher.open(
        name, settings, device=device, ranking=ranking, console=console, to=to_languages, filters=filters
    ) as searcher:
        with console.waiting("searching"):
            hits = searcher.search(
                text,
                lang=stated_language if lang else None,
                to=to_languages,
                k=k,
                filters=filters,
                explain=explain,
                subjects=not flat,
                prefer=preferred,
                facets=[facet for typed in facets.split(",") if (facet := typed.strip())],
            )
        unread = searcher.unread(text)
    if unread:
        show_unread(unread, console)
    if hits.confidence is not None:
        show_detected(hits.lang, hits.confidence, console)
    confidence = None if hits.confidence is None else round(hits.confidence, 4)
    console.emit(
        {
            "query": text,
            "lang": hits.lang,
            "confidence": confidence,
            "collection": name,
            **({} if hits.reranking is None else {"reranking": {"seconds": round(hits.reranking, 4)}}),
            "hits": [as_json(hit) for hit in hits],
            **({"facets": asdict(hits.facets)} if hits.facets else {}),
        }
    )
    if hits.reranking is not None:
        console.say(f"reranking took {hits.reranking:.2f} s")
    if hits and explain and not console.json:
        console.say(score_formula(searcher.ranking, searcher.calibration))
    show_hits(hits, console, searcher.ranking.balance or 0.0)
    if hits.facets and hits:
        show_facets(hits.facets, console)
    if not hits:
        console.result("nothing found" + (": no document passes the filter" if filters else ""))
