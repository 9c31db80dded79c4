"""What search returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from encoders.document import Document, FloatArray, Passages


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
class Parts:
    """What a fair score is made of.

    Attributes:
        cosine: of query and document, as the encoder sees them.
        corrected: the same without the languages' components.
        passage: corrected cosine of the best passage; none where passages were not compared.
        opening: corrected cosine of the opening: the first window, or the sentences that make one; likewise.
        compared: what the margin is taken of: the corrected cosine, or the mean of all three.
        fwd: its mean over the query's nearest documents of this language; none where no margin was taken.
        bwd: its mean over the pseudo-queries nearest to the document, in the query's language; likewise.
        score: by the margin. A hit has another where words moved it to another's place, or beyond the first fifty,
            which are compared among themselves.
        words: its BM25 score as a share of the best of any language; none where words were not asked for.
    """

    cosine: float
    corrected: float
    passage: float | None
    opening: float | None
    compared: float
    fwd: float | None
    bwd: float | None
    score: float
    words: float | None


@dataclass(frozen=True)
class Detail:
    """What the ranking knew of one of its documents.

    Attributes:
        parts: what its score is made of.
        passages: as they are stored.
        best: which of them is nearest to the query, languages' components taken out; 0 where there are none.
    """

    parts: Parts
    passages: Passages
    best: int


@dataclass(frozen=True)
class Hit:
    """A document that a query found.

    Attributes:
        doc_id: its id.
        lang: its language.
        cosine: of query and document, as the encoder sees them.
        score: what it is ranked by.
        document: title, text and fields.
        passage: the segment that matches best; none where the document has no segments, or its owner gave it another
            text since they were made.
        parts: what the score is made of, where that was asked for.
    """

    doc_id: str
    lang: str
    cosine: float
    score: float
    document: Document
    passage: Passage | None
    parts: Parts | None = None


@dataclass(frozen=True)
class Ranking:
    """The documents of one query, best first, without their content: what an evaluation needs.

    Attributes:
        doc_ids: (n,) ids.
        langs: (n,) their languages.
        scores: (n,) float32, descending.
        details: (n,) what a hit shows beside that, where it was asked for.
    """

    doc_ids: Sequence[str]
    langs: Sequence[str]
    scores: FloatArray
    details: Sequence[Detail] | None = None


def as_json(hit: Hit) -> dict[str, object]:
    """A hit as JSON carries it."""
    passage = hit.passage
    return {
        "id": hit.doc_id,
        "lang": hit.lang,
        "score": round(hit.score, 6),
        "cosine": round(hit.cosine, 6),
        "title": hit.document.title,
        "fields": dict(hit.document.fields),
        "passage": {
            "text": passage.text,
            "start": passage.start,
            "end": passage.end,
            "cosine": round(passage.cosine, 6),
        }
        if passage
        else None,
        **({"parts": asdict(hit.parts)} if hit.parts else {}),
    }
