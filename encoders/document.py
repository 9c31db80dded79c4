"""What goes into an encoder and what comes out of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
Int8Array = npt.NDArray[np.int8]
Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Document:
    """A text in a known language: what readers yield. A query is one too.

    Attributes:
        doc_id: unique in its collection, over all languages.
        lang: normalised BCP 47 tag, ``und`` where unknown.
        text: the body.
        title: encoded with the text, shown with a hit.
        fields: the user's own values, by name; ``concept`` (the same for translations of one document), ``label`` and
            ``url`` have a meaning to some commands.
        revision: a newer revision replaces an older one in a store, never the other way round.
    """

    doc_id: str
    lang: str
    text: str
    title: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0

    @property
    def content(self) -> str:
        """The text that is encoded: title, line break, text. Passage offsets count its characters."""
        return f"{self.title}\n{self.text}" if self.title else self.text

    @cached_property
    def text_hash(self) -> str:
        """128 bits over title, text and language: equal hashes need no new encoding."""
        payload = "\0".join((self.lang, self.title, self.text)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(payload, digest_size=16).hexdigest()

    @cached_property
    def fields_hash(self) -> str:
        """128 bits over the user's fields."""
        payload = json.dumps(self.fields, sort_keys=True, ensure_ascii=False, default=str).encode(
            "utf-8", "surrogatepass"
        )
        return hashlib.blake2b(payload, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Passages:
    """The segments of one document.

    Attributes:
        vectors: (passages, dim) int8, each row a unit vector times a scale of its own: only its direction counts.
        offsets: (passages, 2) int32, start and end of each segment in characters of ``Document.content``.
    """

    vectors: Int8Array
    offsets: Int32Array

    def unit_vectors(self) -> FloatArray:
        """The rows as float32 unit vectors, (passages, dim)."""
        return unit_rows(self.vectors)


@dataclass(frozen=True)
class Encoded:
    """What an encoder made of some documents.

    Attributes:
        vectors: (documents, dim) float32 unit rows; a zero row where no part of the encoder knows the text.
        passages: one for each document.
        known: (documents, parts) bool, false where a text has nothing that part of the encoder knows.
    """

    vectors: FloatArray
    passages: Sequence[Passages]
    known: BoolArray


@dataclass(frozen=True)
class EncoderSpec:
    """What an encoder is.

    Attributes:
        name: what a person calls it; a registered name or the model folder's.
        method: how a document's vector is made (``segments``, ``first``, ``sentences``, ``lawdr`` …).
        dim: width of its vectors.
        languages: BCP 47 tags it was trained for; empty where nobody said.
        model: the model's id. Vectors of one model compare with each other and with no others.
        build: the id of the exact graph. Builds of one model that passed the parity gate are interchangeable.
        widths: of the parts of its vectors, where it is several encoders as one; empty otherwise.
    """

    name: str
    method: str
    dim: int
    languages: tuple[str, ...]
    model: str
    build: str
    widths: tuple[int, ...] = ()


class Encoder(Protocol):
    """Text → unit vectors."""

    @property
    def spec(self) -> EncoderSpec:
        """What this encoder is."""
        ...

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents together; their batches are a function of these documents and of nothing else."""
        ...

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Encode queries to (queries, dim) float32 unit rows."""
        ...


@runtime_checkable
class ReadsSoFar(Protocol):
    """An encoder whose queries have a longest length: what comes after is not read."""

    def read_to(self, query: Document) -> int:
        """How many characters of a query's content are read."""
        ...


def unit_rows(matrix: FloatArray | Int8Array) -> FloatArray:
    """Float32 rows divided by their L2 norms; of quantised rows the direction counts, and a zero row stays zero."""
    matrix = matrix.astype(np.float32, copy=False)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    result: FloatArray = np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)
    return result


def int8_rows(matrix: FloatArray) -> Int8Array:
    """Quantise each row to int8 with the largest scale that fits: the direction is kept, the norm is not."""
    peaks = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(matrix * 127.0, peaks, out=np.zeros_like(matrix), where=peaks > 0)
    result: Int8Array = np.rint(scaled).astype(np.int8)
    return result


def short_hash(*parts: str | bytes | memoryview) -> str:
    """Return 16 hex digits that identify the parts in their order: how model, build and space ids are made."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
