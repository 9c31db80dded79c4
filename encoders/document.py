"""Input and output of an encoder: documents, passages, vectors."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32]
    Float64Array = npt.NDArray[np.float64]
    Int8Array = npt.NDArray[np.int8]
    Int32Array = npt.NDArray[np.int32]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]
else:  # names alone, so that a command without arrays does not load NumPy
    FloatArray = Float64Array = Int8Array = Int32Array = IntArray = BoolArray = Rows = Any


@dataclass(frozen=True)
class Document:
    """A text in a known language: a document of a collection, or a query.

    Attributes:
        doc_id: unique in its collection, over all languages.
        lang: normalised BCP 47 tag; ``und`` if unknown.
        title: encoded with the text, shown with a hit.
        fields: the user's values by name; ``concept`` (the same for translations of one document), ``label`` and
            ``url`` have a meaning for some commands.
        revision: a store replaces an older revision by a newer one, never the reverse.
        place: file and line that the document was read from; empty for a document that was not read from a source.
            It is not stored and not compared.
    """

    doc_id: str
    lang: str
    text: str
    title: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0
    place: str = field(default="", compare=False, repr=False)

    @property
    def content(self) -> str:
        """The text that is encoded: title, line break, text. Passage offsets count its characters."""
        return f"{self.title}\n{self.text}" if self.title else self.text

    @cached_property
    def text_hash(self) -> str:
        """128-bit hash of title, text and language as hex; a document whose hash stays needs no new encoding."""
        payload = "\0".join((self.lang, self.title, self.text)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(payload, digest_size=16).hexdigest()

    @cached_property
    def fields_hash(self) -> str:
        """128-bit hash of the user's fields as hex."""
        payload = json.dumps(self.fields, sort_keys=True, ensure_ascii=False, default=str).encode(
            "utf-8", "surrogatepass"
        )
        return hashlib.blake2b(payload, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Passages:
    """The segments of one document in their order, and after them its title if that is a passage of its own."""

    vectors: Int8Array  # (passages, dim) int8; each row is a unit vector times its own scale
    offsets: Int32Array  # (passages, 2) int32, start and end of each segment in characters of ``Document.content``

    @property
    def has_title(self) -> bool:
        """Whether the last passage is the title: it begins at 0, where only a first segment begins otherwise."""
        return len(self.offsets) > 1 and not self.offsets[-1, 0]

    def without_title(self) -> "Passages":
        """The segments alone."""
        return Passages(self.vectors[:-1], self.offsets[:-1]) if self.has_title else self

    def unit_vectors(self) -> FloatArray:
        """The rows as float32 unit vectors, (passages, dim)."""
        return unit_rows(self.vectors)


@dataclass(frozen=True)
class Encoded:
    """Documents as an encoder encoded them.

    Attributes:
        vectors: (documents, dim) float32 unit rows; a zero row where no part of the encoder knows the text.
        known: (documents, parts) bool, whether that part of the encoder knows any of the text.
    """

    vectors: FloatArray
    passages: Sequence[Passages]
    known: BoolArray


@dataclass(frozen=True)
class EncoderSpec:
    """Name, ids and vector width of an encoder.

    Attributes:
        method: how a document's vector is made (``windows``, ``segments``, ``first``, ``sentences``, ``lawdr`` …).
        languages: BCP 47 tags the encoder was trained for; empty if unknown.
        model: the model's id. Vectors can be compared only within one model.
        build: the id of the exact graph and of how the method uses it. Builds of one model that passed the parity check
            are interchangeable.
        widths: widths of the vectors' parts if several encoders are combined; empty otherwise.
        titled: whether passages are read with the document's title before them.
    """

    name: str
    method: str
    dim: int
    languages: tuple[str, ...]
    model: str
    build: str
    widths: tuple[int, ...] = ()
    titled: bool = False


class Encoder(Protocol):
    """Text → unit vectors."""

    @property
    def spec(self) -> EncoderSpec:
        """What this encoder is."""
        ...

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents together; the batches depend on these documents alone."""
        ...

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Encode queries to (queries, dim) float32 unit rows."""
        ...


@runtime_checkable
class HasQueryLimit(Protocol):
    """An encoder with a maximum query length; it ignores the rest of a query."""

    def read_to(self, query: Document) -> int:
        """Number of characters of a query's content that are read."""
        ...


def encode_in_batches(
    encoder: Encoder, documents: Iterable[Document], size: int, progress: Callable[[int], None]
) -> Iterator[tuple[Sequence[Document], Encoded]]:
    """Yield the documents and their vectors in batches of ``size``, the last shorter; ``progress`` gets each length."""
    remaining = iter(documents)
    while batch := list(islice(remaining, size)):
        yield batch, encoder.encode_documents(batch)
        progress(len(batch))


def unit_rows(matrix: FloatArray | Int8Array) -> FloatArray:
    """Float32 rows of a float or quantised matrix, divided by their L2 norms; a zero row stays zero."""
    rows = matrix.astype(np.float32, copy=False)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    if norms.min(initial=np.inf) > 0:
        return np.asarray(np.divide(rows, norms, out=None if rows is matrix else rows))
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))


def int8_rows(matrix: FloatArray) -> Int8Array:
    """Quantise each row to int8 with the largest scale that fits: the row keeps its direction and loses its norm."""
    peaks = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(matrix * 127.0, peaks, out=np.zeros_like(matrix), where=peaks > 0)
    return np.asarray(np.rint(scaled), dtype=np.int8)


def int8_rows_and_scales(matrix: FloatArray) -> tuple[Int8Array, FloatArray]:
    """Quantise each row to int8 with a scale of its own: levels (rows, columns), and scales (rows,) to multiply by."""
    levels = np.empty(matrix.shape, dtype=np.int8)
    scales = np.empty(len(matrix), dtype=np.float32)
    for start in range(0, len(matrix), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        scales[rows] = np.maximum(np.abs(matrix[rows]).max(axis=1, initial=0.0), np.finfo(np.float32).tiny) / 127.0
        levels[rows] = np.rint(matrix[rows] / scales[rows, None])
    return levels, scales


_AT_ONCE = 50_000
"""Rows that are quantised at once: a table may fill most of the memory."""


def short_hash(*parts: str | bytes | memoryview) -> str:
    """Return 16 hex digits that identify the parts in their order; model, build and space ids are such hashes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
