"""The embedded store: one SQLite file a generation of a collection, exact kNN in memory; it needs no server."""

import json
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from encoders.document import Document, FloatArray, Passages
from encoders.errors import BadInput, StoreError
from encoders.folder.whole_folder import make_private_folder
from encoders.phrases import did_you_mean
from indexer.stores import embedded_tables, word_tables
from indexer.stores.acceptance import admit, other_width, unknown_model
from indexer.stores.collection_names import check_collection_name
from indexer.stores.contract import (
    Filters,
    LexicalHits,
    LexicalQuery,
    MissingDocuments,
    NearestDocuments,
    PutReport,
    Stamp,
    StoredDocument,
    VectorQuery,
    in_order,
)
from indexer.stores.embedded_tables import DocumentRow
from indexer.stores.field_filters import missing_field
from indexer.stores.matrix import VectorMatrix
from indexer.stores.read_cache import ReadCache
from indexer.stores.sqlite_file import SqliteFile

_SCHEMAS = (word_tables.WITHOUT_WORDS, word_tables.WITH_WORDS)
_IDS_AT_ONCE = 10_000

_PASSAGES_BYTES = 3 * 2**22
"""Maximum bytes of cached passages: those of some seven thousand pages."""
_BESIDE_VECTORS = 500
"""Bytes that a document's passages take beside their vectors."""
_MATCHES_BYTES = 2**26
"""Maximum bytes of cached matches: those of 450,000 documents."""
_MATCH = 150
"""Bytes that a match, a row and an id, takes in the cache."""
_FILTERS = 16
"""Maximum filters whose documents are cached."""


class EmbeddedStore:
    """A ``VectorStore`` in the file at ``path``."""

    def __init__(self, folder: Path, collection: str, generation: int = 1, *, make: bool = True) -> None:
        """Open the file of a collection's generation; with ``make`` a missing file is created.

        Raises BadInput: the collection's name is no file name; StoreError: it can't be opened, or is missing.
        """
        check_collection_name(collection)
        self.path = path_of(folder, collection, generation)
        self._matrices: dict[str, tuple[int, VectorMatrix]] = {}
        self._passages = ReadCache[tuple[str, str], Passages](
            lambda passages: passages.vectors.nbytes + _BESIDE_VECTORS, _PASSAGES_BYTES
        )
        self._matches = ReadCache[str, Mapping[int, str]](
            lambda matches: max(len(matches) * _MATCH, _MATCHES_BYTES // _FILTERS), _MATCHES_BYTES
        )
        self._building = threading.Lock()  # the vectors take the most memory: one thread reads them at a time
        self._dims: dict[str, int] = {}  # a model's width never changes
        self._file = SqliteFile(self.path, make=make, prepare=embedded_tables.add_functions)
        if make:
            with self._file.store_errors():
                make_private_folder(folder)
        with self._file.reading() as connection:
            if word_tables.version(connection) in _SCHEMAS:
                return
        with self._file.writing() as connection:
            version = word_tables.version(connection)
            if version not in {0, *_SCHEMAS}:
                raise StoreError(
                    f"{self.path} was written by another version of Dragoman; "
                    f"remove it (dragoman delete --all -c {collection}) and index the collection again"
                )
            embedded_tables.create(connection)
            if not version:
                connection.execute(f"PRAGMA user_version = {_SCHEMAS[0]}")

    def create(self, model: str, dim: int) -> None:
        known = self.models().get(model)
        if known is not None and known != dim:
            raise other_width(self.path, model, known, dim)
        if known is None:
            with self._file.writing() as connection:
                embedded_tables.add_model(connection, model, dim)

    def models(self) -> Mapping[str, int]:
        with self._file.reading() as connection:
            return embedded_tables.models(connection)

    def put(self, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        admission = admit(documents, self._dim(model))
        latest = admission.latest
        with self._file.writing() as connection:
            before = embedded_tables.by_id(connection, latest)
            outdated = {doc_id for doc_id, row in before.items() if row.revision > latest[doc_id].document.revision}
            items = [item for doc_id, item in latest.items() if doc_id not in outdated]
            if items:
                embedded_tables.forget(connection, model, [(item, before.get(item.document.doc_id)) for item in items])
                embedded_tables.write(connection, model, items)
                self._index_words(connection, items, before)
                embedded_tables.count_change(connection)
        admission.older |= outdated
        return admission.report(len(items))

    def _dim(self, model: str) -> int:
        if model in self._dims:
            return self._dims[model]
        models = self._dims = dict(self.models())
        if model not in models:
            raise unknown_model(self.path, model, models)
        return models[model]

    def _index_words(
        self, connection: sqlite3.Connection, items: Sequence[StoredDocument], before: Mapping[str, DocumentRow]
    ) -> None:
        """If the file has words, index those of new and changed texts: a text's hash covers its language too."""
        if not word_tables.words_exist(connection):
            return
        hashes = {doc_id: row.text_hash for doc_id, row in before.items()}
        documents = {item.document.doc_id: item.document for item in items}
        changed = [doc_id for doc_id, document in documents.items() if hashes.get(doc_id) != document.text_hash]
        outdated = [before[doc_id] for doc_id in changed if doc_id in before]
        word_tables.remove(connection, [(row.row, row.lang) for row in outdated])
        rows = embedded_tables.by_id(connection, changed).values()
        word_tables.add(connection, [(row.row, row.lang, documents[row.doc_id].content) for row in rows])

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        with self._file.reading() as connection:
            return embedded_tables.stamps(connection, model, doc_ids)

    def search(self, query: VectorQuery) -> dict[str, list[NearestDocuments]]:
        """Exact nearest documents in each target language."""
        matrix = self._matrix(query.model)
        allowed = None
        if query.filters:
            with self._file.snapshot() as connection:
                matches = self._matching(connection, query.filters)
            allowed = matrix.rows_of(matches.values())
        return matrix.search(query.vectors, query.k, allowed, with_vectors=query.with_vectors)

    def search_with_words(
        self, query: VectorQuery, lexical: LexicalQuery
    ) -> tuple[dict[str, list[NearestDocuments]], list[LexicalHits]]:
        """``lexical``, then ``search``."""
        lexical_hits = self.lexical(lexical)
        return self.search(query), lexical_hits

    def lexical(self, query: LexicalQuery) -> list[LexicalHits]:
        """BM25 by FTS5; the first call on a file indexes the file's words, in about 1 ms a document."""
        with self._file.reading() as connection:
            complete = word_tables.are_complete(connection)
        while not complete:
            with self._file.writing() as connection:
                word_tables.index_batch(connection)
                complete = word_tables.are_complete(connection)
        with self._file.snapshot() as connection:
            among = json.dumps(list(self._matching(connection, query.filters))) if query.filters else None
            hits_by_text = [
                {lang: word_tables.search(connection, text, lang, query.k, among) for lang in query.langs}
                for text in query.texts
            ]
            rows = {row for by_lang in hits_by_text for hits in by_lang.values() for row, _ in hits}
            doc_ids = embedded_tables.ids_of_rows(connection, rows)
        if query.models:
            encoded = {doc_id for model in query.models for doc_id in self.stamps(model, list(doc_ids.values()))}
            doc_ids = {row: doc_id for row, doc_id in doc_ids.items() if doc_id in encoded}
        return [{lang: _ranked(hits, doc_ids) for lang, hits in by_lang.items()} for by_lang in hits_by_text]

    def _matching(self, connection: sqlite3.Connection, filters: Filters) -> Mapping[int, str]:
        """Ids by row of the documents that pass the filters; the connection is a snapshot's."""
        change_number, key = embedded_tables.change_number(connection), json.dumps(filters, sort_keys=True, default=str)
        matches = self._matches.get(change_number, [key]).get(key)
        if matches is None:
            matches = embedded_tables.matching(connection, filters)
            self._matches.add(change_number, {key: matches})
        return matches

    def _matrix(self, model: str) -> VectorMatrix:
        """The model's vectors, read again if the file has changed; other threads wait during the reading."""
        cached = self._matrices.get(model)
        with self._file.reading() as connection:
            if cached is not None and cached[0] == embedded_tables.change_number(connection):
                return cached[1]
        with self._building, self._file.snapshot() as connection:
            change_number = embedded_tables.change_number(connection)
            cached = self._matrices.get(model)
            if cached is not None and cached[0] == change_number:
                return cached[1]
            matrix = VectorMatrix.build(
                embedded_tables.places(connection, model), embedded_tables.vectors(connection, model), self._dim(model)
            )
            self._matrices[model] = (change_number, matrix)
            return matrix

    def prepare_forks(self, model: str) -> None:
        """Read a model's vectors and make their int8 copy, which forked processes then share; close all connections."""
        self._matrix(model).make_copy()
        self._file.close()

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        matrix = self._matrix(model)
        try:
            return matrix.vectors[[matrix.position[doc_id] for doc_id in doc_ids]]
        except KeyError:
            rows = {doc_id: matrix.position[doc_id] for doc_id in doc_ids if doc_id in matrix.position}
            vectors = {doc_id: matrix.vectors[row] for doc_id, row in rows.items()}
            raise MissingDocuments(set(doc_ids) - vectors.keys(), vectors) from None

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        dim = self._dim(model)
        with self._file.snapshot() as connection:
            change_number = embedded_tables.change_number(connection)
            cached = self._passages.get(change_number, [(model, doc_id) for doc_id in doc_ids])
            by_id = {doc_id: passages for (_, doc_id), passages in cached.items()}
            if missing := [doc_id for doc_id in doc_ids if doc_id not in by_id]:
                passages = embedded_tables.passages(
                    connection, model, self._rows(connection, change_number, model, missing), dim
                )
                self._passages.add(change_number, {(model, doc_id): passages[doc_id] for doc_id in passages})
                by_id |= passages
        return in_order(by_id, doc_ids)

    def _rows(
        self, connection: sqlite3.Connection, change_number: int, model: str, doc_ids: Sequence[str]
    ) -> dict[int, str]:
        """Ids by their rows in a snapshot of the file; from memory if the model's vectors there are the snapshot's."""
        cached = self._matrices.get(model)
        if cached is not None and cached[0] == change_number:
            return cached[1].ids_by_number(doc_ids)
        return {known.row: doc_id for doc_id, known in embedded_tables.by_id(connection, doc_ids).items()}

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        with self._file.reading() as connection:
            by_id = embedded_tables.contents(connection, doc_ids)
        return in_order(by_id, doc_ids)

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        dim = self._dim(model)
        last = ""
        while True:  # one transaction a page: a long scan blocks nobody
            with self._file.reading() as connection:
                page = embedded_tables.page(connection, model, lang, last, batch, dim)
            if not page:
                return
            last = page[-1].document.doc_id
            yield page

    def sample(self, model: str, lang: str, count: int, *, seed: int = 0) -> list[str]:
        matrix = self._matrix(model)
        rows = matrix.languages.get(lang, slice(0, 0))
        drawn = np.random.default_rng(seed).permutation(rows.stop - rows.start)[:count]
        return [matrix.doc_ids[rows.start + row] for row in drawn]

    def require_fields(self, names: Iterable[str]) -> None:
        """Raise ``BadInput`` if no document has a value in a field of one of these names."""
        with self._file.reading() as connection:
            missing = next((name for name in names if not embedded_tables.has_field(connection, name)), None)
            fields = embedded_tables.field_names(connection) if missing is not None else []
        if missing in fields:
            raise BadInput(
                f"the field {missing!r} has no text, number or boolean in any document; "
                f"if it has objects, their fields are named {missing}.NAME"
            )
        if missing is not None:
            shown = f" (the fields: {', '.join(fields)})" if fields else ", and none has any field"
            raise missing_field(missing, did_you_mean(missing, fields) + shown)

    def value_path(self, name: str) -> str:
        return name

    def ids(self) -> Iterator[str]:
        last = ""
        while True:
            with self._file.reading() as connection:
                page = embedded_tables.ids_after(connection, last, _IDS_AT_ONCE)
            if not page:
                return
            last = page[-1]
            yield from page

    def delete(self, doc_ids: Iterable[str]) -> int:
        listed = list(doc_ids)
        with self._file.writing() as connection:
            if word_tables.words_exist(connection):
                rows = embedded_tables.by_id(connection, listed).values()
                word_tables.remove(connection, [(row.row, row.lang) for row in rows])
            removed = embedded_tables.delete(connection, listed)
            embedded_tables.count_change(connection)
        return removed

    def publish(self) -> None:
        """Do nothing: readers see what is committed."""

    def drop(self) -> None:
        self.close()
        self._dims.clear()
        with self._file.store_errors():
            remove_file(self.path)

    def count(self, model: str = "", *, patient: bool = False) -> dict[str, int]:  # noqa: ARG002 - of servers
        with self._file.reading() as connection:
            return embedded_tables.count(connection, model)

    def count_passing(self, langs: Sequence[str], filters: Filters | None = None) -> int:
        if not filters:
            counts = self.count()
            return sum(counts.get(lang, 0) for lang in set(langs))
        with self._file.snapshot() as connection:
            return embedded_tables.count_rows(connection, self._matching(connection, filters).keys(), langs)

    def close(self) -> None:
        self._matrices.clear()
        self._passages.clear()
        self._matches.clear()
        self._file.close()


def path_of(folder: Path, collection: str, generation: int) -> Path:
    """The file of a generation; no collection's name has an ``@``."""
    return folder / (f"{collection}.db" if generation == 1 else f"{collection}@{generation}.db")


def generations(folder: Path, collection: str) -> list[int]:
    """Numbers of the generations that have a file."""
    matches = (re.fullmatch(rf"{re.escape(collection)}(?:@(\d+))?\.db", path.name) for path in folder.glob("*.db"))
    return sorted(int(match[1] or 1) for match in matches if match)


def remove_file(path: Path) -> None:
    """Remove a store's file and SQLite's files beside it."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _ranked(hits: Sequence[tuple[int, float]], doc_ids: Mapping[int, str]) -> list[tuple[str, float]]:
    """Hits by id, best first, equal scores by id; rows without an id are left out."""
    return sorted([(doc_ids[row], score) for row, score in hits if row in doc_ids], key=lambda hit: (-hit[1], hit[0]))
