"""Hits of a search, and what the search says about its query, for a person."""

from __future__ import annotations

import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from encoders.console import Alert, Note, Part
from encoders.languages import UNDETERMINED
from encoders.methods.vector_parts import shown_weights
from encoders.printable import one_line
from encoders.text.segmentation import cut_at_blanks
from indexer.text.language_detection import LIKELY, SURE
from query.calibration.margin import NEIGHBOURS, centring, exponent
from query.ranking.search_hits import RERANKED, Facets, Hit, Hits, ScoreParts, good_hits

if TYPE_CHECKING:
    from query.calibration.calibration import Calibration
    from query.ranking.ranking_options import RankingOptions

_PASSAGE_CHARACTERS = 240
_TITLE_COLUMNS = 48
"""Columns of the title of a document that is shown under a hit about the same thing."""
_FACET_VALUES = 20
"""Values of a facet that are shown; JSON has all."""
_INDENT = 11
_END_OF_GOOD_HITS = "     ── most hits below fit other queries as well as this one ──"


def query_parts(hits: Hits, unread: str) -> Iterator[Part]:
    """What a search says about its query, whose end ``unread`` the encoder leaves out."""
    if unread:
        beginning = textwrap.shorten(unread, 40, placeholder=" …")
        yield Alert(f"the query is longer than the encoder reads; what comes from {beginning!r} on was left out")
    if hits.confidence is not None:
        unsure = "" if hits.confidence >= SURE else f", {hits.confidence:.0%} sure"
        unsure += ", so the ranking does not lean on it" if hits.confidence < LIKELY else ""
        language = hits.lang if hits.lang != UNDETERMINED else "unknown"
        yield Note(f"query language: {language} (detected{unsure}; say another with --lang)")
    if hits.reranking is not None:
        yield Note(f"reranking took {hits.reranking:.2f} s")


def result_parts(hits: Hits, filters: object, balance: float = 1.0) -> Iterator[Part]:
    """The hits, and the counts of facets; or that nothing was found, with or without ``filters``."""
    if not hits:
        yield "nothing found" + (": no document passes the filter" if filters else "")
        return
    yield from hit_parts(hits, balance)
    if hits.facets:
        yield from facet_parts(hits.facets)


def hit_parts(hits: Sequence[Hit], balance: float = 1.0) -> Iterator[Part]:
    """Each hit for people: rank, score, language, title, id, the cosine if the score is another number, the passage.

    Below stand its other documents, if a hit is a subject. ``balance`` is the search's, for the parts of the scores. A
    line marks where the good hits end, if they end in the list.
    """
    good = good_hits(hits)
    width, indent = _width() - _INDENT, " " * _INDENT
    for rank, hit in enumerate(hits, start=1):
        cosine_known = bool(hit.parts) or f"{hit.score:.3f}" == f"{hit.cosine:.3f}"
        cosine = "" if cosine_known else f"  cosine {hit.cosine:.3f}"
        yield f"{rank:3d}  {hit.score:.3f}  {hit.lang:<4} {_title(hit)}  [{one_line(hit.doc_id)}]{cosine}"
        if hit.parts:
            yield f"{indent}{parts_line(hit.parts, balance)}"
        if hit.passage:
            passage = " ".join(hit.passage.text.split())
            if len(passage) > _PASSAGE_CHARACTERS:
                _, end = cut_at_blanks(passage, _PASSAGE_CHARACTERS // 2, _PASSAGE_CHARACTERS, " ")[0]
                passage = f"{passage[:end]} …"
            columns = _INDENT + width * len(passage) // _cells(passage)
            yield textwrap.fill(passage, columns, initial_indent=indent, subsequent_indent=indent)
        if hit.also:
            also = [
                f"{other.lang}: {_cut(_title(other), _TITLE_COLUMNS)} [{one_line(other.doc_id)}]" for other in hit.also
            ]
            yield from (f"{indent}{line}" for line in _lines(f"also in {' · '.join(also)}", width))
        if rank == good and rank < len(hits):
            yield _END_OF_GOOD_HITS
    if hits and good == 0:
        yield Note("most of these hits fit other queries as well as this one; perhaps there is no answer here")


def facet_parts(facets: Facets) -> Iterator[Part]:
    """The counts of the best documents, a line for each facet."""
    yield f"\nthe best {facets.counted:,} of {facets.total:,} documents searched:"
    for name, counts in facets.counts.items():
        values = [f"{_cut(one_line(value), _TITLE_COLUMNS)} {count:,}" for value, count in counts.items()]
        shown, rest = values[:_FACET_VALUES], len(values) - _FACET_VALUES
        text = " · ".join([*shown, *([f"{rest:,} more values"] if rest > 0 else [])])
        for number, line in enumerate(_lines(f"{one_line(name)}: {text}", _width() - 2)):
            yield f"{'  ' if number else ''}{line}"


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 120)


def _title(hit: Hit) -> str:
    """The title of a hit, or the beginning of its text."""
    return one_line(hit.document.title or textwrap.shorten(hit.document.text, 80, placeholder=" …"))


def parts_line(parts: ScoreParts, balance: float) -> str:
    """The parts of a score by a balance, in one line."""
    line = f"cosine {parts.cosine:.3f}"
    if centring(balance) and parts.corrected != parts.cosine:
        line += f", corrected {parts.corrected:.3f}"
    elif f"{parts.corrected:.3f}" != f"{parts.cosine:.3f}":  # a map or weights changed it
        line += f", as compared {parts.corrected:.3f}"
    if parts.passage is not None and parts.opening is not None:
        line += f", title {parts.title:.3f}" if parts.title is not None else ""
        line += f", opening {parts.opening:.3f}, best passage {parts.passage:.3f}: mean {parts.compared:.3f}"
    if parts.fwd is not None and parts.bwd is not None:
        line += f"; near the query {parts.fwd:.3f}, near the document {parts.bwd:.3f}: by the margin {parts.score:.3f}"
    added = round(parts.score + (parts.mates or 0.0), 3) - round(parts.score, 3)  # so that the shown numbers add up
    if parts.mate is not None and f"{abs(added):.3f}" != "0.000":
        line += f"; its mates, such as [{one_line(parts.mate)}], add {added:.3f}"
    if parts.words is not None:
        line += f"; BM25 score {parts.words:.2f} of the best document's"
    if parts.reranked is not None:
        line += f"; by the reranker {parts.reranked:.3f}"
    return line


def score_formula(ranking: RankingOptions, calibration: Calibration | None) -> str:
    """A sentence that says how a score is computed from its parts, and the weights of several encoders."""
    formula = "plain cosine: a score is the document's cosine"
    if calibration and ranking.balance is not None:
        formula = (
            f"balance {ranking.balance:g}: a score is the mean of document, title, opening and best passage, counted "
            "1, 1, 1 and 2 times"
        )
        formula += ", corrected for languages" if centring(ranking.balance) else ""
        if beta := exponent(ranking.balance):
            formula += (
                f", divided by the mean of near the query and near the document, of {NEIGHBOURS} neighbours each, to "
                f"the power {beta:g}"
            )
        if calibration.mates and centring(ranking.balance) == 1.0:
            formula += "; documents about the same thing add to it or take from it"
        weights = shown_weights(calibration.vector_parts.weights)
        formula += f"; the encoders' cosines count {weights}" if weights else ""
    formula += "; words change the order within a language, scores stay with the places" if ranking.hybrid else ""
    formula += f"; a reranker orders the first {RERANKED}, scores stay with the places" if ranking.rerank else ""
    return formula


def _lines(text: str, columns: int) -> list[str]:
    """A text in lines of at most so many terminal columns, broken at spaces; a longer word has a line of its own.

    No line ends with the dot between two documents.
    """
    lines: list[str] = []
    for word in re.split(r"(?<!·)\s+", text):
        if lines and _cells(lines[-1]) + 1 + _cells(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _cut(text: str, columns: int) -> str:
    if _cells(text) <= columns:
        return text
    text = text[:columns]
    while _cells(text) > columns - 1:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _cells(text: str) -> int:
    """Width of a text in terminal columns; a Chinese or Japanese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
