"""Hits for a person."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from encoders.methods.vector_parts import shown_weights
from query.calibration.margin import exponent
from query.ranking.hits import Hit, Parts

if TYPE_CHECKING:
    from query.ranking.choice import Choice

_PASSAGE_CHARACTERS = 240
_INDENT = 11


def show_hits(hits: Sequence[Hit]) -> None:
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


def scoring(choice: Choice, weights: Sequence[float] = ()) -> str:
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
