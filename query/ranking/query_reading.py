"""A query's text becomes a query in a language, and its vector."""

from __future__ import annotations

from encoders.document import Document, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.methods.combined_encoder import SEPARATOR
from encoders.methods.vector_parts import VectorParts
from indexer.text.language_detection import Detector


def require_query(text: str) -> None:
    """Raise ``BadInput`` if a query is empty or has lone surrogates."""
    if not text.strip():
        raise BadInput("the query is empty; type what you look for")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("the query is not UTF-8; see to the terminal's encoding")


def read_query(text: str, lang: str | None, detector: Detector) -> tuple[Document, float | None]:
    """The query, and the confidence of its detected language; no confidence if the language is stated."""
    require_query(text)
    if lang:
        return Document("query", normalise(lang), text), None
    detection = detector.detect(text)
    return Document("query", detection.lang, text), detection.confidence


def encoded_query(encoder: Encoder, query: Document, parts: VectorParts) -> FloatArray:
    """(1, dim) a query's vector; raises ``BadInput`` if no encoder with a weight above 0 knows a word of it."""
    vectors = encoder.encode_queries([query])
    if parts.comparable(vectors).any():
        return vectors
    names, known = encoder.spec.name.split(SEPARATOR), encoder.spec.languages
    if len(names) == len(parts.weights):  # those of combined encoders that count
        names = [name for name, weight in zip(names, parts.weights, strict=True) if weight > 0]
    raise BadInput(
        f"{SEPARATOR.join(names)} knows no word of the query {query.content!r} in {query.lang}; "
        "use other words, or say its language with --lang"
        + (f" (it knows {', '.join(known)})" if known and query.lang not in known else "")
    )
