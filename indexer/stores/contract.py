"""The interface of a vector store. One test suite runs over every implementation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from encoders.document import Document, Encoded, FloatArray, Passages

T = TypeVar("T")


class MissingDocuments(KeyError):
    """Some of the requested documents are not stored: somebody deletes them, or never stored them."""

    def __init__(self, doc_ids: Iterable[str], existing: Mapping[str, Any]) -> None:
        self.doc_ids, self.existing = frozenset(doc_ids), existing  # ids of the missing documents; the others, by id
        super().__init__(", ".join(sorted(map(str, self.doc_ids))))


def in_order(items: Mapping[str, T], doc_ids: Sequence[str]) -> list[T]:
    """The items of the ids. Raises MissingDocuments: an id has no item."""
    try:
        return [items[doc_id] for doc_id in doc_ids]
    except KeyError:
        raise MissingDocuments(set(doc_ids) - items.keys(), items) from None


def read_existing(read: Callable[[Sequence[str]], Iterable[T]], doc_ids: Sequence[str]) -> dict[str, T]:
    """What a store's ``get``, ``vectors`` or ``passages`` returns, by id; missing documents are left out."""
    try:
        return dict(zip(doc_ids, read(doc_ids), strict=True))
    except MissingDocuments as missing:
        return {doc_id: missing.existing[doc_id] for doc_id in doc_ids if doc_id in missing.existing}


@dataclass(frozen=True)
class StoredDocument:
    """A document with one model's vector and passages."""

    document: Document
    vector: FloatArray  # (dim,) float32 unit vector, as the encoder made it
    passages: Passages
    known: tuple[bool, ...] = (True,)  # a flag for each part of the encoder: whether it knows something of the text

    @classmethod
    def of(cls, document: Document, encoded: Encoded, row: int) -> Self:
        """A document with its row of an encoder's output."""
        return cls(document, encoded.vectors[row], encoded.passages[row], tuple(map(bool, encoded.known[row])))


@dataclass(frozen=True)
class EditedDocument(Document):
    """A document whose owner changed the text after it was encoded."""

    @classmethod
    def unless(cls, document: Document, text_hash: str) -> Document:
        """The document itself if its text is still the encoded one; otherwise an ``EditedDocument``."""
        if document.text_hash == text_hash:
            return document
        return cls(document.doc_id, document.lang, document.text, document.title, document.fields, document.revision)


@dataclass(frozen=True)
class Stamp:
    """What a store knows of a document except its content: enough to decide whether it must be put again."""

    lang: str
    text_hash: str
    fields_hash: str
    revision: int

    @classmethod
    def of(cls, document: Document) -> Stamp:
        """The stamp that the document will have once it is stored."""
        return cls(document.lang, document.text_hash, document.fields_hash, document.revision)


@dataclass(frozen=True)
class NearestDocuments:
    """The hits of one query in one language, best first."""

    doc_ids: Sequence[str]  # (k,) ids
    scores: FloatArray  # (k,) float32 inner products, cosines of unit vectors, whatever a store computes inside
    vectors: FloatArray | None = None  # (k, dim) float32 stored vectors, if they were requested

    def first(self, count: int) -> NearestDocuments:
        """The best ``count`` hits."""
        return self._of(range(min(count, len(self.doc_ids))))

    def without(self, doc_ids: Collection[str]) -> NearestDocuments:
        """The hits without some documents."""
        if not any(doc_id in doc_ids for doc_id in self.doc_ids):
            return self
        return self._of([row for row, doc_id in enumerate(self.doc_ids) if doc_id not in doc_ids])

    def _of(self, rows: Sequence[int]) -> NearestDocuments:
        vectors = None if self.vectors is None else self.vectors[list(rows)]
        return NearestDocuments([self.doc_ids[row] for row in rows], self.scores[list(rows)], vectors)


@dataclass(frozen=True)
class PutReport:
    """The outcome of one ``put``."""

    stored: int
    older: Sequence[str] = ()  # ids that were not written because there is a newer revision
    refused: Mapping[str, str] = field(default_factory=dict)  # id → reason, of documents that are not accepted


Filters = Mapping[str, Any]
"""The user's fields that a hit must have: ``{"label": "news"}``; a list of values means any of them.

Values compare as text: ``1994`` equals ``"1994"``, and true ``"true"``. A list in a document has its items as values.
"""


@runtime_checkable
class OnServer(Protocol):
    """Additional methods of a store on a server: filters in the server's own language, and another user's rights."""

    def shown_place(self, doc_id: str) -> tuple[str, str]:
        """Name of the index that a document is read from, and the document's id there."""

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> VectorStore:
        """A view of the store with another user's rights; it shares the connections and must not be closed.

        Every document passes the clauses, filters in the server's language. ``authorization`` is the HTTP header's
        value; if empty, the store's rights hold. Raises BadInput: the store can't filter by such clauses.
        """

    def originals(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Sources of documents without Dragoman's object; missing documents are left out."""

    def require_visible(self, model: str) -> None:
        """Check that the user sees the fields by which documents are found; a search by hidden fields finds nothing.

        Raises NotAllowed: the server hides a field from this user.
        """


@runtime_checkable
class ChecksFields(Protocol):
    """Additional method of a store that knows which fields its documents have."""

    def require_fields(self, names: Iterable[str]) -> None:
        """Check that filters by these fields can find something. Raises BadInput: there is no such filterable field."""

    def value_path(self, name: str) -> str:
        """The path in a document's fields of the values that a filter by this field compares with.

        Raises BadInput: there is no such field, it can't be filtered by, or its values are none of a document's fields.
        """


@runtime_checkable
class ReadsTexts(Protocol):
    """Additional method of a store on a server: passages and texts in one answer."""

    def passages_and_texts(
        self, model: str, doc_ids: Sequence[str], texts_of: Collection[str]
    ) -> tuple[list[Passages], dict[str, Document]]:
        """``passages``, and the documents ``texts_of`` unless they are elsewhere, by id. Raises MissingDocuments."""


@dataclass(frozen=True)
class VectorQuery:
    """Queries for the nearest documents of each language."""

    model: str  # id of the model whose vectors are searched
    vectors: Mapping[str, FloatArray]  # (queries, dim) float32 by target language, for which the queries are corrected
    k: int  # maximum documents for each query and language
    filters: Filters | None = None  # the user's fields that a document must have
    with_vectors: bool = False  # return the documents' vectors as well


@dataclass(frozen=True)
class LexicalQuery:
    """Queries of the lexical arm of a hybrid search."""

    texts: Sequence[str]  # queries, in any language; each language's analyser makes its terms
    langs: Sequence[str]  # languages of the documents; a language without documents has no hits
    k: int  # maximum hits for each text and language
    filters: Filters | None = None  # the user's fields that a document must have
    models: Sequence[str] = ()  # only documents with a vector of at least one of these models; empty: all documents


LexicalHits = dict[str, list[tuple[str, float]]]
"""By language, ids with BM25 scores above 0, best first, then by id; scores compare across languages of one store."""


class VectorStore(Protocol):
    """Documents of one collection with raw unit vectors, in a named field for each model."""

    def create(self, model: str, dim: int) -> None:
        """Register a model and its vectors' width; repeatable. Raises ModelMismatch: the model has another width."""

    def models(self) -> Mapping[str, int]:
        """Width of the vectors, by model id; empty before the first ``create``."""

    def put(self, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        """Write documents, each whole or not at all; an equal or older stored revision is replaced, a newer one stays.

        Raises ModelMismatch: ``create`` was never called for this model.
        """

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        """Stamps of the documents that have a vector of this model, by id; unknown ids are left out."""

    def search(self, query: VectorQuery) -> dict[str, list[NearestDocuments]]:
        """For each target language the nearest documents to each of its queries."""

    def lexical(self, query: LexicalQuery) -> list[LexicalHits]:
        """For each text the documents with the best BM25."""

    def search_with_words(
        self, query: VectorQuery, lexical: LexicalQuery
    ) -> tuple[dict[str, list[NearestDocuments]], list[LexicalHits]]:
        """``search`` and ``lexical``; a server gets both in one request."""

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        """Stored vectors, (ids, dim) float32. Raises MissingDocuments: an id is not stored."""

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        """Stored passages, one for each id. Raises MissingDocuments: an id is not stored."""

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents in the order of the ids. Raises MissingDocuments: an id is not stored."""

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        """Documents with a vector of the model, in batches, ordered by id: for calibration, export and migration."""

    def sample(self, model: str, lang: str, count: int, *, seed: int = 0) -> list[str]:
        """At most ``count`` random ids of a language in random order, the same for a seed and an unchanged store."""

    def ids(self) -> Iterator[str]:
        """Every stored id, ordered."""

    def delete(self, doc_ids: Iterable[str]) -> int:
        """Delete documents with their vectors and passages; returns how many there were."""

    def publish(self) -> None:
        """Show everything that was put to all readers, also outside this interface; a second call changes nothing."""

    def drop(self) -> None:
        """Remove the store completely."""

    def count(self, model: str = "", *, patient: bool = False) -> dict[str, int]:
        """Number of documents by language; if a model is named, of documents with a vector of that model.

        ``patient``: a server that is away, or has no room, is waited for, as by writes.
        """

    def count_passing(self, langs: Sequence[str], filters: Filters | None = None) -> int:
        """Number of documents of the languages that pass the filters, and that the user of a narrowed view may see."""

    def close(self) -> None:
        """Close files and connections; closing twice is harmless."""
