"""``dragoman search``: ranked hits in every language, the matching passage under each; ``similar``: to a document."""

import click

from encoders.console import Console
from encoders.languages import stated_language, typed_languages
from encoders.machine.placement import Device
from indexer.collection.settings import Settings
from query.commands.options.common_options import common_options, searched_collection_option
from query.commands.options.encoder_options import device_option
from query.commands.options.help import Command
from query.commands.options.search_options import filter_option, languages_of_option, limit_option, ranking_options
from query.commands.output.hits import query_parts, result_parts
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import as_json


def _one_text(ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> str:
    if len(texts) > 1:
        raise click.UsageError(f'put the query in quotes: "{" ".join(texts)}"', ctx)
    return "".join(texts)


@click.command("search", cls=Command)
@click.argument("text", nargs=-1, required=True, metavar="TEXT", callback=_one_text)
@searched_collection_option("The collection to search.")
@languages_of_option("--lang", "Language of the query.  [default: detected among the collection's]")
@languages_of_option("--to", "Languages of documents, with commas: en,fr.  [default: all of the collection's]")
@limit_option("hits")
@filter_option
@ranking_options
@languages_of_option(
    "--prefer",
    "Show each subject in the first of these languages that has it.  [default: the query's language]",
    default="",
    metavar="LANG,…",
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
    query_lang = stated_language(lang) if lang else None
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
                lang=query_lang,
                to=to_languages,
                k=k,
                filters=filters,
                explain=explain,
                subjects=not flat,
                prefer=preferred,
                facets=[facet for typed in facets.split(",") if (facet := typed.strip())],
            )
        unread = searcher.unread(text)
        reason = "" if hits or not filters else searcher.why_nothing(text, filters)
    values = {
        "query": text,
        "lang": hits.lang,
        "confidence": None if hits.confidence is None else round(hits.confidence, 4),
        "collection": name,
        **({} if hits.reranking is None else {"reranking": {"seconds": round(hits.reranking, 4)}}),
        "hits": list(map(as_json, hits)),
        **({"facets": hits.facets} if hits.facets else {}),
    }
    console.show(values, [*query_parts(hits, unread), *result_parts(hits, reason, searcher.ranking.balance or 0.0)])


@click.command("similar", cls=Command)
@click.argument("doc_id", metavar="ID")
@searched_collection_option("The document's collection.")
@languages_of_option(
    "--to", "Languages of the similar documents, with commas: en,fr.  [default: all but the document's own]"
)
@limit_option("documents")
@filter_option
@common_options
def similar(
    doc_id: str,
    name: str,
    to: str | None,
    k: int,
    filters: dict[str, list[str]] | None,
    settings: Settings,
    console: Console,
) -> None:
    """Find the documents that are most similar to the document ID, in other languages, best first.

    Documents are compared by their stored vectors, after each language's own component is subtracted, and in the common
    space if the calibration has one.
    """
    languages = None if to is None else typed_languages(to)
    with console.waiting("starting"):
        from query.ranking.searcher import Searcher  # noqa: PLC0415 - a second of imports

    with Searcher.open(
        name, settings, device="cpu", console=console, to=languages, filters=filters, queries=False
    ) as searcher:
        hits = searcher.similar(doc_id, to=languages, k=k, filters=filters)
    values = {"id": doc_id, "lang": hits.lang, "collection": name, "hits": list(map(as_json, hits))}
    console.show(values, result_parts(hits, "no document passes the filter" if filters else ""))
