"""The vector store, as everything else sees it. One test suite runs over every implementation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from encoders.document import Document, Encoded, FloatArray, Passages


@dataclass(frozen=True)
class StoredDocument:
    """A document with what one model made of it.

    Attributes:
        document: the document, its text and the user's fields included.
        vector: (dim,) float32 unit vector, as the encoder made it.
        passages: its segments.
        known: one flag a part of the encoder; false where that part knows nothing of the text.
    """

    document: Document
    vector: FloatArray
    passages: Passages
    known: tuple[bool, ...] = (True,)

    @classmethod
    def of(cls, document: Document, encoded: Encoded, at: int) -> Self:
        """A document with the row that was made of it."""
        return cls(document, encoded.vectors[at], encoded.passages[at], tuple(map(bool, encoded.known[at])))


@dataclass(frozen=True)
class EditedDocument(Document):
    """A document whose owner gave it another text after its vector and its passages were made."""

    @classmethod
    def unless(cls, document: Document, text_hash: str) -> Document:
        """The document itself if it has the text still that was encoded."""
        if document.text_hash == text_hash:
            return document
        return cls(document.doc_id, document.lang, document.text, document.title, document.fields, document.revision)


@dataclass(frozen=True)
class Stamp:
    """What the store holds of a document, short of its content: enough to see whether it must be put again."""

    lang: str
    text_hash: str
    fields_hash: str
    revision: int

    @classmethod
    def of(cls, document: Document) -> Stamp:
        """What the stamp will be once the document is stored."""
        return cls(document.lang, document.text_hash, document.fields_hash, document.revision)


@dataclass(frozen=True)
class Candidates:
    """What one query found in one language, best first.

    Attributes:
        doc_ids: (k,) ids.
        scores: (k,) float32, the plain cosine of the vector that was asked with the stored one, if both are unit
            vectors; their inner product otherwise. Nothing else, whatever the store computes inside.
        vectors: (k, dim) float32 stored vectors, where they were asked for.
    """

    doc_ids: Sequence[str]
    scores: FloatArray
    vectors: FloatArray | None = None


@dataclass(frozen=True)
class PutReport:
    """What became of the documents of one ``put``.

    Attributes:
        stored: how many were written.
        older: ids the store kept because it holds a newer revision.
        refused: reasons, by id, for documents the store would not take.
    """

    stored: int
    older: Sequence[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


Filters = Mapping[str, Any]
"""The user's fields a hit must have: ``{"label": "news"}``; a list of values means any of them.

Values compare as text: ``1994`` and ``"1994"`` are one, true is ``true``. A field that is a list has each of its items.
"""


@runtime_checkable
class OnServer(Protocol):
    """What a store on a server can do beside: ask in the server's own language, and with somebody else's rights."""

    @property
    def shown_index(self) -> str:
        """Name of the index that the documents are read from."""
        ...

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> VectorStore:
        """The same documents as somebody else may see them; the connections are shared, and not to be closed.

        Args:
            clauses: of the server's own language, that every document must pass.
            authorization: whose rights hold, as the header says it; the store's own unless given.

        Raises:
            BadInput: the store can't filter by such clauses.
        """
        ...

    def originals(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Sources of documents as other readers find them, without what is ours; those that are gone are left out."""
        ...


@dataclass(frozen=True)
class LexicalQuery:
    """What a lexical arm is asked for.

    Attributes:
        texts: queries, in any language.
        langs: of the documents.
        k: how many a text and language at most.
        models: documents without a vector of one of these are left out.
    """

    texts: Sequence[str]
    langs: Sequence[str]
    k: int
    models: Sequence[str]


class VectorStore(Protocol):
    """Documents of one collection with raw unit vectors, a named field of them for each model."""

    def create(self, model: str, dim: int) -> None:
        """Make room for a model's vectors; the same call again changes nothing.

        Raises:
            ModelMismatch: the store knows this model with another width.
        """
        ...

    def models(self) -> Mapping[str, int]:
        """Width of the vectors, by model id; empty where nothing was created yet."""
        ...

    def put(self, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        """Write documents, all or none on a crash; a stored newer revision stays, an equal or older one is replaced.

        Raises:
            ModelMismatch: ``create`` was never called for this model.
        """
        ...

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        """What is stored with a vector of this model, by id; ids the store does not know are left out."""
        ...

    def search(
        self,
        model: str,
        queries: Mapping[str, FloatArray],
        k: int,
        *,
        filters: Filters | None = None,
        with_vectors: bool = False,
        lacking: str = "",
    ) -> dict[str, list[Candidates]]:
        """For each target language the nearest documents of each of its queries.

        Args:
            model: whose vectors to ask.
            queries: (queries, dim) float32 by target language: the same queries, corrected for each language.
            k: how many documents a query and language at most.
            filters: the user's fields a document must have.
            with_vectors: return the documents' vectors as well.
            lacking: another model of which a document must have no vector.
        """
        ...

    def search_with_words(
        self,
        model: str,
        queries: Mapping[str, FloatArray],
        k: int,
        wording: LexicalQuery,
        *,
        filters: Filters | None = None,
        lacking: str = "",
    ) -> tuple[dict[str, list[Candidates]], list[dict[str, list[tuple[str, float]]]]]:
        """``search``, and ``lexical`` for each text: a server is asked for both at once.

        Args:
            model: whose vectors to ask.
            queries: (queries, dim) float32 by target language.
            k: how many documents a query and language at most.
            wording: what to look for by words.
            filters: the user's fields a document must have, by whichever way it is found.
            lacking: another model of which a document must have no vector; words find it nevertheless.
        """
        ...

    def lexical(
        self, text: str, langs: Sequence[str], k: int, *, filters: Filters | None = None
    ) -> dict[str, list[tuple[str, float]]]:
        """For each language its k documents that share the most terms with a text: the lexical arm of a hybrid search.

        Args:
            text: the query, in any language; it is taken apart as texts of each language are.
            langs: of the documents; one the store has none of finds nothing.
            k: how many a language at most.
            filters: the user's fields a document must have.

        Returns:
            Ids with BM25 scores above 0, best first, equal ones by id; a score compares with those of other languages
            of the same store, and with nothing else.
        """
        ...

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        """Stored vectors, (ids, dim) float32.

        Raises:
            KeyError: an id is not stored.
        """
        ...

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        """Stored passages, one for each id.

        Raises:
            KeyError: an id is not stored.
        """
        ...

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents themselves, in the order asked.

        Raises:
            KeyError: an id is not stored.
        """
        ...

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        """Everything stored, in batches, ordered by id: for calibration, export and migration."""
        ...

    def sample(self, model: str, lang: str, count: int, *, seed: int = 0) -> list[str]:
        """Ids of at most ``count`` documents of a language, drawn at random, in random order.

        The same for the same seed while the store stays as it is.
        """
        ...

    def ids(self) -> Iterator[str]:
        """Every stored id, ordered."""
        ...

    def delete(self, doc_ids: Iterable[str]) -> int:
        """Remove documents with all that belongs to them; returns how many there were."""
        ...

    def publish(self) -> None:
        """Let everything that was put be seen from now on, by readers of every kind; again changes nothing.

        Until then a new store may keep what it holds from readers other than this contract's.
        """
        ...

    def drop(self) -> None:
        """Remove the whole collection; nothing of it stays behind."""
        ...

    def count(self, model: str = "") -> dict[str, int]:
        """Documents by language; those with a vector of a model, if one is named."""
        ...

    def close(self) -> None:
        """Let go of files and connections; closing twice is harmless."""
        ...
