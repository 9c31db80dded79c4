"""``dragoman search``: ranked hits in every language, the matching passage under each."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click

from encoders.console import Console
from encoders.languages import UNDETERMINED, language_list, normalise
from encoders.methods.vector_parts import shown_weights
from encoders.session import Device
from indexer.settings import Settings
from indexer.text.language_detection import SURE, preload
from query.calibration.margin import exponent
from query.commands.options import device_option, output_options, place_options, ranking_options
from query.ranking.hits import Hit, Parts, as_json
from query.ranking.options import RankingOptions

if TYPE_CHECKING:
    from query.ranking.fair_ranker import Choice

_PASSAGE_CHARACTERS = 240
_INDENT = 11


@click.command("search", short_help="Find documents in any language.")
@click.argument("text")
@click.option("-c", "--collection", required=True, envvar="DRAGOMAN_COLLECTION", help="The collection to search.")
@click.option("--lang", help="Language of the query.  [default: detected among the collection's]")
@click.option("--to", help="Languages of documents, with commas: en,fr.  [default: all of the collection's]")
@click.option("-k", type=click.IntRange(1, 10_000), default=10, show_default=True, help="How many hits.")
@click.option(
    "--filter", "filters", multiple=True, metavar="FIELD=VALUE", help="Only documents whose field has the value."
)
@ranking_options
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@device_option
@place_options
@output_options
def command(
    text: str,
    collection: str,
    lang: str | None,
    to: str | None,
    k: int,
    filters: tuple[str, ...],
    ranking: RankingOptions,
    explain: bool,
    device: str,
    settings: Settings,
    console: Console,
) -> None:
    """Find the documents that answer TEXT, whatever their language, best first."""
    if not lang:
        preload()
    from query.ranking.searcher import Searcher  # noqa: PLC0415 - a second of imports, during which detection is loaded

    with Searcher.open(
        collection,
        settings,
        device=cast("Device", device),
        ranking=ranking,
        console=console,
    ) as searcher:
        detected = None if lang else searcher.detect(text)
        language = detected.lang if detected else normalise(lang or "")
        hits = searcher.search(
            text,
            lang=language,
            to=None if to is None else language_list(to),
            k=k,
            filters=_filters(filters),
            explain=explain,
        )
        unread = searcher.unread(text)
        choice, weights = searcher.choice, searcher.parts.weights
    if unread:
        beginning = textwrap.shorten(unread, 40, placeholder=" …")
        console.warn(f"the query is longer than the encoder reads; what comes from {beginning!r} on was left out")
    if detected:
        unsure = "" if detected.confidence >= SURE else f", {detected.confidence:.0%} sure"
        said = language if language != UNDETERMINED else "unknown"
        console.say(f"query language: {said} (detected{unsure}; say another with --lang)")
    if console.json:
        console.emit(
            {"query": text, "lang": language, "collection": collection, "hits": [as_json(hit) for hit in hits]}
        )
    elif hits:
        if explain:
            console.say(how(choice, weights))
        show(hits)
    else:
        console.result("nothing found" + (": no document passes the filter" if filters else ""))


def _filters(given: Sequence[str]) -> dict[str, list[str]] | None:
    filters: dict[str, list[str]] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--filter takes FIELD=VALUE, as in --filter label=news, not {pair!r}")
        filters.setdefault(name, []).append(value)
    return filters or None


def show(hits: Sequence[Hit]) -> None:
    """Print hits for a person: rank, score, language, title, id, cosine where it is not the score, and the passage."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    for rank, hit in enumerate(hits, start=1):
        title = hit.document.title or textwrap.shorten(hit.document.text, 80, placeholder=" …")
        said = bool(hit.parts) or f"{hit.score:.3f}" == f"{hit.cosine:.3f}"
        cosine = "" if said else f"  cosine {hit.cosine:.3f}"
        click.echo(f"{rank:3d}  {hit.score:.3f}  {hit.lang:<4} {title}  [{hit.doc_id}]{cosine}")
        if hit.parts:
            click.echo(f"{' ' * _INDENT}{explained(hit.parts)}")
        if hit.passage:
            passage = " ".join(hit.passage.text.split())
            if len(passage) > _PASSAGE_CHARACTERS:
                passage = passage[:_PASSAGE_CHARACTERS].rstrip() + " …"
            columns = _INDENT + (width - _INDENT) * len(passage) // _cells(passage)
            click.echo(textwrap.fill(passage, columns, initial_indent=" " * _INDENT, subsequent_indent=" " * _INDENT))


def explained(parts: Parts) -> str:
    """A line that says what a score is made of."""
    said = f"cosine {parts.cosine:.3f}"
    if parts.corrected != parts.cosine:
        said += f", without languages {parts.corrected:.3f}"
    if parts.passage is not None and parts.opening is not None:
        said += f", best passage {parts.passage:.3f}, opening {parts.opening:.3f}: mean {parts.compared:.3f}"
    if parts.fwd is not None and parts.bwd is not None:
        said += f"; near the query {parts.fwd:.3f}, near the document {parts.bwd:.3f}: by the margin {parts.score:.3f}"
    if parts.words is not None:
        said += f"; words {parts.words:.2f} of the most that any document shares"
    return said


def how(choice: Choice, weights: Sequence[float] = ()) -> str:
    """A sentence that says how parts become a score, and what weights the encoders have, where there are several."""
    beta = exponent(choice.balance)
    near = "the mean of near the query and near the document"
    ways = {"ratio": f"divided by {near}, to the power {beta:g}", "distance": f"less {beta:g} times {near}"}
    said = ways[choice.margin] if beta and choice.margin in ways else "and nothing else"
    words = "; words change the order within a language, scores stay with the places" if choice.hybrid else ""
    weighed = f"; the encoders' cosines count {counts}" if (counts := shown_weights(weights)) else ""
    compared = "the mean of document, best passage and opening" if choice.passages else "the document's cosine"
    return f"balance {choice.balance:g}: a score is {compared}, without languages, {said}{words}{weighed}"


def _cells(text: str) -> int:
    """Columns of a terminal: a Chinese or Japanese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
