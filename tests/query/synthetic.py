"""A collection without a neural model: topics and languages are directions, so that what is right is known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore

DIM = 64


def direction(name: str) -> FloatArray:
    """(dim,) the same unit vector for the same name."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    vector: FloatArray = np.random.default_rng(seed).standard_normal((1, DIM)).astype(np.float32)
    unit: FloatArray = unit_rows(vector)[0]
    return unit


class TopicEncoder:
    """Encodes a sentence as the direction of its first word, its language's direction, and noise of its own.

    Attributes:
        bias: length of the language's direction beside 1 of the topic's; 0: an encoder that knows no languages.
        noise: length of the noise.
    """

    spec = EncoderSpec("topics", "segments", DIM, (), "topics", "topics")

    def __init__(self, bias: float, noise: float = 0.5, model: str = "") -> None:
        self.bias, self.noise = np.float32(bias), np.float32(noise)
        self.spec = replace(self.spec, model=model or self.spec.model)

    def _sentence(self, text: str, lang: str) -> FloatArray:
        topic = text.split(maxsplit=1)[0]
        own = direction(f"noise {lang} {text}")
        return np.asarray(direction(topic) + self.bias * direction(f"language {lang}") + self.noise * own)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        rows = [
            unit_rows(np.stack([self._sentence(text, document.lang) for text in document.content.split("\n")]))
            for document in documents
        ]
        passages = [Passages(int8_rows(one), np.tile(np.array([[0, 1]], np.int32), (len(one), 1))) for one in rows]
        vectors = unit_rows(np.stack([one.mean(axis=0) for one in rows]))
        return Encoded(vectors, passages, np.ones((len(documents), 1), dtype=np.bool_))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return unit_rows(np.stack([self._sentence(query.content, query.lang) for query in queries]))


def page(lang: str, topic: str, number: int = 0, sentences: int = 3, **fields: object) -> Document:
    """A document about a topic; the title and each sentence begin with it."""
    text = "\n".join(f"{topic} sentence {number} {at}" for at in range(sentences))
    return Document(f"{lang}:{topic}:{number}", lang, text, f"{topic} title {number}", fields)


def filled(folder: Path, encoder: Encoder, documents: Iterable[Document]) -> EmbeddedStore:
    """A store that holds some documents."""
    listed = list(documents)
    store = EmbeddedStore(folder, "synthetic")
    store.create(encoder.spec.model, encoder.spec.dim)
    encoded = encoder.encode_documents(listed)
    store.put(
        encoder.spec.model,
        [StoredDocument(*one) for one in zip(listed, encoded.vectors, encoded.passages, strict=True)],
    )
    return store
