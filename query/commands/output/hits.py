"""Hits of a search, and what the search says about its query, for a person."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from encoders.console import Alert, Note, Part
from encoders.printable import cells, lines_of, one_line
from encoders.text.segmentation import cut_at_blanks
from indexer.text.language_detection import SURE
from query.ranking.search_hits import Hit, Hits, answer_notes, explanation

_PASSAGE_CHARACTERS = 240
_TITLE_COLUMNS = 48
"""Columns of the title of a document that is shown under a hit about the same thing."""
_FACET_VALUES = 20
"""Values of a facet that are shown; JSON has all."""
_INDENT = 11


def query_parts(hits: Hits, unread: str) -> Iterator[Part]:
    """What a search says about its query, whose end ``unread`` the encoder leaves out."""
    if unread:
        beginning = repr(_beginning(unread, 40))
        yield Alert(f"the query is longer than the encoder reads; what comes from {beginning} on was left out")
    if hits.confidence is not None and hits.confidence >= SURE:
        yield Note(f"query language: {hits.lang} (detected)")
    yield from map(Note, answer_notes(hits, "--lang {}"))
    if hits.reranking is not None:
        yield Note(f"reranking took {hits.reranking:.2f} s")
    if hits:
        yield Note("a score orders the hits of this search and measures nothing; the cosine stands beside it")


def result_parts(hits: Hits, reason: str, balance: float = 1.0) -> Iterator[Part]:
    """The hits, and the counts of facets; or that nothing was found, and the reason if there is one."""
    if not hits:
        yield "nothing found" + (f": {reason}" if reason else "")
        return
    yield from hit_parts(hits, balance, hits.good)
    if not (facets := hits.facets):
        return
    yield f"\nthe best {facets.counted:,} of {facets.total:,} documents searched:"
    for name, counts in facets.counts.items():
        values = [f"{_cut(one_line(value), _TITLE_COLUMNS)} {count:,}" for value, count in counts.items()]
        shown, rest = values[:_FACET_VALUES], len(values) - _FACET_VALUES
        text = " · ".join([*shown, *([f"{rest:,} more values"] if rest > 0 else [])])
        for number, line in enumerate(lines_of(f"{one_line(name)}: {text}", _width() - 2)):
            yield f"{'  ' if number else ''}{line}"


def hit_parts(hits: Sequence[Hit], balance: float = 1.0, good: int | None = None) -> Iterator[Part]:
    """Each hit for people: rank, score, language, title, id, the cosine if the score is another number, the passage.

    Below stand its other documents, if a hit is a subject. ``balance`` is the search's, for the parts of the scores. A
    line marks where the first ``good`` hits end, if they end in the list.
    """
    width, indent = _width() - _INDENT, " " * _INDENT
    for rank, hit in enumerate(hits, start=1):
        cosine = "" if f"{hit.score:.3f}" == f"{hit.cosine:.3f}" else f"  cosine {hit.cosine:.3f}"
        place, named = f"{rank:3d}  {hit.score:.3f}  {hit.lang:<4} ", f"{_title(hit)}  [{one_line(hit.doc_id)}]{cosine}"
        fits = cells(place + named) <= _width()
        first, *rest = [named] if fits else lines_of(named, _width() - len(place))
        yield from (f"{place}{first}", *(f"{indent}{line}" for line in rest))
        below = lines_of(explanation(hit.parts, hit.score, balance), width) if hit.parts else []
        yield from (f"{indent}{line}" for line in below)
        if hit.passage:
            passage = _beginning(hit.passage.text, _PASSAGE_CHARACTERS)
            columns = _INDENT + width * len(passage) // cells(passage)
            yield textwrap.fill(passage, columns, initial_indent=indent, subsequent_indent=indent)
        if hit.also:
            also = [
                f"{other.lang}: {_cut(_title(other), _TITLE_COLUMNS)} [{one_line(other.doc_id)}]" for other in hit.also
            ]
            yield from (f"{indent}{line}" for line in lines_of(f"also in {' · '.join(also)}", width))
        if hit.alike:
            yield f"{indent}{hit.alike:,} more are nearly the same (--flat shows them)"
        if rank == good and rank < len(hits):
            yield "     ── most hits below fit other queries as well as this one ──"


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 120)


def _title(hit: Hit) -> str:
    return one_line(hit.document.title or _beginning(hit.document.text, 80))


def _beginning(text: str, most: int) -> str:
    """The first characters of a text on one line, cut at a blank if the text has one there: Chinese has none."""
    text = " ".join(text.split())
    _, end = cut_at_blanks(text, most // 2, most, " ")[0]
    return text if end == len(text) else f"{text[:end]} …"


def _cut(text: str, columns: int) -> str:
    if cells(text) <= columns:
        return text
    text = text[:columns]
    while cells(text) > columns - 1:
        text = text[:-1]
    return f"{text.rstrip()}…"
