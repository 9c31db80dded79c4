"""What search returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoders.document import Document, FloatArray


@dataclass(frozen=True)
class Passage:
    """The part of a document that answers a query best.

    Attributes:
        text: its characters, trimmed.
        start: where it begins in ``Document.content``, in characters.
        end: where it ends.
        cosine: of the query and the passage's vector.
    """

    text: str
    start: int
    end: int
    cosine: float


@dataclass(frozen=True)
class Hit:
    """A document that a query found.

    Attributes:
        doc_id: its id.
        lang: its language.
        cosine: of query and document, as the encoder sees them.
        score: what it is ranked by.
        document: title, text and fields.
        passage: the segment that matches best; none where the document has no segments.
    """

    doc_id: str
    lang: str
    cosine: float
    score: float
    document: Document
    passage: Passage | None


@dataclass(frozen=True)
class Ranking:
    """The documents of one query, best first, without their content: what an evaluation needs.

    Attributes:
        doc_ids: (n,) ids.
        langs: (n,) their languages.
        scores: (n,) float32, descending.
    """

    doc_ids: Sequence[str]
    langs: Sequence[str]
    scores: FloatArray
