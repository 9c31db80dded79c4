"""The embedded store: one SQLite file a collection, exact kNN in memory; it needs no server."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from encoders.document import Document, FloatArray, Passages
from encoders.errors import BadInput, ModelMismatch, StoreError
from indexer.stores import words
from indexer.stores.admission import admit
from indexer.stores.contract import (
    Candidates,
    Filters,
    LexicalHits,
    LexicalQuery,
    PutReport,
    Stamp,
    StoredDocument,
    VectorQuery,
)
from indexer.stores.matrix import VectorMatrix

_SCHEMAS = (words.WITHOUT_WORDS, words.WITH_WORDS)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

_metadata = sa.MetaData()

_state = sa.Table(
    "state",
    _metadata,
    sa.Column("generation", sa.Integer, nullable=False),  # counts changes, so that a reader sees them
)
_models = sa.Table(
    "models",
    _metadata,
    sa.Column("model", sa.String, primary_key=True),
    sa.Column("dim", sa.Integer, nullable=False),
)
_documents = sa.Table(
    "documents",
    _metadata,
    sa.Column("row", sa.Integer, primary_key=True),
    sa.Column("doc_id", sa.String, nullable=False, unique=True),
    sa.Column("lang", sa.String, nullable=False, index=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("text_hash", sa.String, nullable=False),
    sa.Column("fields_hash", sa.String, nullable=False),
)
_contents = sa.Table(  # apart from ``documents``, so that reading ids touches no text
    "contents",
    _metadata,
    sa.Column("row", sa.ForeignKey("documents.row", ondelete="CASCADE"), primary_key=True),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("text", sa.String, nullable=False),
    sa.Column("fields", sa.JSON, nullable=False),
)
_vectors = sa.Table(
    "vectors",
    _metadata,
    sa.Column("row", sa.ForeignKey("documents.row", ondelete="CASCADE"), primary_key=True),
    sa.Column("model", sa.ForeignKey("models.model"), primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sa.Column("known", sa.LargeBinary, nullable=False),
)
_passages = sa.Table(
    "passages",
    _metadata,
    sa.Column("row", sa.ForeignKey("documents.row", ondelete="CASCADE"), primary_key=True),
    sa.Column("model", sa.ForeignKey("models.model"), primary_key=True),
    sa.Column("vectors", sa.LargeBinary, nullable=False),
    sa.Column("offsets", sa.LargeBinary, nullable=False),
)


class EmbeddedStore:
    """A ``VectorStore`` in the file at ``path``."""

    def __init__(self, folder: Path, collection: str, generation: int = 1) -> None:
        """Open the file of a collection's generation, and create it if it is missing.

        Raises:
            BadInput: the collection's name is no valid file name.
            StoreError: the file can't be opened, or is of another version.
        """
        if not _NAME.fullmatch(collection):
            raise BadInput(
                f"a collection can't be named {collection!r}; take at most 100 letters, digits, '.', '-' and '_'"
            )
        self.path = path_of(folder, collection, generation)
        self._matrices: dict[str, tuple[int, VectorMatrix]] = {}
        self._building = threading.Lock()  # the vectors take the most memory: one thread reads them at a time
        self._dims: dict[str, int] = {}  # a model's width never changes
        self._engine = sa.create_engine(
            f"sqlite:///{self.path}", pool_reset_on_return=None
        )  # reads open no transaction
        sa.event.listen(self._engine, "connect", _pragmas)
        sa.event.listen(self._engine, "begin", _begin)
        with self._guarded():
            folder.mkdir(parents=True, exist_ok=True)
        with self._reading() as connection:
            if connection.execute(sa.text("PRAGMA user_version")).scalar_one() in _SCHEMAS:
                return
        with self._writing() as connection:
            version = connection.execute(sa.text("PRAGMA user_version")).scalar_one()
            if version not in {0, *_SCHEMAS}:
                raise StoreError(
                    f"{self.path} was written by another version of Dragoman; "
                    f"remove it (dragoman delete --all -c {collection}) and index the collection again"
                )
            _metadata.create_all(connection)
            connection.execute(sa.text("INSERT INTO state SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state)"))
            if not version:
                connection.execute(sa.text(f"PRAGMA user_version = {_SCHEMAS[0]}"))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.DBAPIError, sqlite3.Error, OSError) as error:
            cause = getattr(error, "orig", None) or error
            raise StoreError(
                f"the store {self.path} failed ({str(cause).strip() or type(cause).__name__}); {_advice(cause)}"
            ) from error

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._guarded(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A transaction that holds the file's write lock from its start: what it reads is still true when it writes."""
        with self._guarded(), self._engine.execution_options(write=True).begin() as connection:
            yield connection

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        """A transaction for several reads of the same state of the file."""
        with self._guarded(), self._engine.execution_options(snapshot=True).begin() as connection:
            yield connection

    def create(self, model: str, dim: int) -> None:
        """Register a model and the width of its vectors."""
        known = self.models().get(model)
        if known is not None and known != dim:
            raise ModelMismatch(f"{self.path} holds vectors of model {model} with {known} numbers, not {dim}")
        if known is None:
            with self._writing() as connection:
                connection.execute(_models.insert().prefix_with("OR IGNORE"), {"model": model, "dim": dim})

    def models(self) -> Mapping[str, int]:
        """Width of the vectors, by model id."""
        with self._reading() as connection:
            return {row.model: row.dim for row in connection.execute(sa.select(_models))}

    def put(self, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        """Write documents in one transaction."""
        dim = self._dim(model)
        admitted = admit(documents, dim)
        latest = admitted.latest
        with self._writing() as connection:
            before = self._documents(connection, list(latest))
            outdated = {doc_id for doc_id, row in before.items() if row.revision > latest[doc_id].document.revision}
            items = [item for doc_id, item in latest.items() if doc_id not in outdated]
            if items:
                self._forget(connection, model, [(item, before.get(item.document.doc_id)) for item in items])
                self._write(connection, model, items)
                self._index_words(connection, items, before)
                _count_change(connection)
        return PutReport(stored=len(items), older=sorted({*admitted.older, *outdated}), refused=admitted.refused)

    def _dim(self, model: str) -> int:
        if model in self._dims:
            return self._dims[model]
        models = self._dims = dict(self.models())
        if model not in models:
            raise ModelMismatch(
                f"{self.path} holds no vectors of model {model} (it holds: {', '.join(models) or 'none'}); "
                "search with the encoder it was indexed with, or index again"
            )
        return models[model]

    def _documents(self, connection: sa.Connection, doc_ids: Sequence[str]) -> dict[str, sa.Row[Any]]:
        return {row.doc_id: row for row in connection.execute(_DOCUMENTS, _listed(doc_ids))}

    def _forget(
        self, connection: sa.Connection, model: str, items: Sequence[tuple[StoredDocument, sa.Row[Any] | None]]
    ) -> None:
        """Remove the model's vectors that are replaced; if the text changed, also the vectors of other models."""
        unchanged = [row.row for item, row in items if row and row.text_hash == item.document.text_hash]
        changed = [row.row for item, row in items if row and row.text_hash != item.document.text_hash]
        for table in (_vectors, _passages):
            connection.execute(table.delete().where(table.c.row.in_(_LIST), table.c.model == model), _listed(unchanged))
            connection.execute(table.delete().where(table.c.row.in_(_LIST)), _listed(changed))
        connection.execute(_contents.delete().where(_contents.c.row.in_(_LIST)), _listed([*unchanged, *changed]))

    def _write(self, connection: sa.Connection, model: str, items: Sequence[StoredDocument]) -> None:
        upsert = sqlite.insert(_documents)
        columns = ("doc_id", "lang", "revision", "text_hash", "fields_hash")
        connection.execute(
            upsert.on_conflict_do_update(
                index_elements=["doc_id"], set_={name: upsert.excluded[name] for name in columns[1:]}
            ),
            [{name: getattr(item.document, name) for name in columns} for item in items],
        )
        rows = self._documents(connection, [item.document.doc_id for item in items])
        numbered = [(rows[item.document.doc_id].row, item) for item in items]
        connection.execute(_contents.insert(), [_content(row, item) for row, item in numbered])
        connection.execute(_vectors.insert(), [_vector(row, model, item) for row, item in numbered])
        connection.execute(_passages.insert(), [_passage(row, model, item) for row, item in numbered])

    def _index_words(
        self, connection: sa.Connection, items: Sequence[StoredDocument], before: Mapping[str, sa.Row[Any]]
    ) -> None:
        """If the file has words, index those of new and changed texts: a text's hash covers its language too."""
        if not words.words_exist(connection):
            return
        hashes = {doc_id: row.text_hash for doc_id, row in before.items()}
        documents = {item.document.doc_id: item.document for item in items}
        changed = {
            doc_id: document for doc_id, document in documents.items() if hashes.get(doc_id) != document.text_hash
        }
        words.remove(connection, [(before[doc_id].row, before[doc_id].lang) for doc_id in changed if doc_id in before])
        rows = self._documents(connection, list(changed)).values()
        words.add(connection, [(row.row, row.lang, changed[row.doc_id].content) for row in rows])

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        """Stamps of the documents that have a vector of this model, by id."""
        with self._reading() as connection:
            rows = connection.execute(_STAMPS, {"model": model, **_listed(doc_ids)}).all()
        return {row.doc_id: Stamp(row.lang, row.text_hash, row.fields_hash, row.revision) for row in rows}

    def search(self, query: VectorQuery) -> dict[str, list[Candidates]]:
        """Exact nearest documents in each target language."""
        matrix = self._matrix(query.model)
        allowed = None
        if query.filters:
            with self._reading() as connection:
                matching = connection.execute(_matching(query.filters, _documents.c.doc_id)).scalars().all()
            allowed = matrix.rows_of(matching)
        if query.lacking:
            without_model = ~matrix.rows_of(self._matrix(query.lacking).doc_ids)
            allowed = without_model if allowed is None else allowed & without_model
        return matrix.search(query.vectors, query.k, allowed, with_vectors=query.with_vectors)

    def search_with_words(
        self, query: VectorQuery, lexical: LexicalQuery
    ) -> tuple[dict[str, list[Candidates]], list[LexicalHits]]:
        """``lexical``, then ``search``."""
        lexical_hits = self.lexical(lexical)
        return self.search(query), lexical_hits

    def lexical(self, query: LexicalQuery) -> list[LexicalHits]:
        """BM25 by FTS5; the first call on a file indexes the file's words, in about 1 ms a document."""
        with self._reading() as connection:
            complete = words.are_complete(connection)
        while not complete:
            with self._writing() as connection:
                words.index_batch(connection)
                complete = words.are_complete(connection)
        with self._snapshot() as connection:
            matching = _matching(query.filters, _documents.c.row) if query.filters else None
            allowed = connection.execute(matching).scalars().all() if matching is not None else None
            hits_by_text = [
                {lang: words.search(connection, text, lang, query.k, allowed) for lang in query.langs}
                for text in query.texts
            ]
            rows = list({row for by_lang in hits_by_text for hits in by_lang.values() for row, _ in hits})
            doc_ids = {row.row: row.doc_id for row in connection.execute(_IDS, _listed(rows))}
        if query.models:
            encoded = {doc_id for model in query.models for doc_id in self.stamps(model, list(doc_ids.values()))}
            doc_ids = {row: doc_id for row, doc_id in doc_ids.items() if doc_id in encoded}
        return [{lang: _ranked(hits, doc_ids) for lang, hits in by_lang.items()} for by_lang in hits_by_text]

    def _matrix(self, model: str) -> VectorMatrix:
        """The model's vectors, read again if the file has changed; other threads wait during the reading."""
        cached = self._matrices.get(model)
        with self._reading() as connection:
            if cached is not None and cached[0] == connection.exec_driver_sql(_GENERATION).scalar_one():
                return cached[1]
        with self._building, self._snapshot() as connection:
            generation = connection.exec_driver_sql(_GENERATION).scalar_one()
            cached = self._matrices.get(model)
            if cached is not None and cached[0] == generation:
                return cached[1]
            query = (
                sa.select(_documents.c.lang, _documents.c.doc_id, _vectors.c.vector)
                .join(_vectors, _vectors.c.row == _documents.c.row)
                .where(_vectors.c.model == model)
                .order_by(_documents.c.lang, _documents.c.doc_id)
            )
            matrix = VectorMatrix.build([tuple(row) for row in connection.execute(query)], self._dim(model))
            self._matrices[model] = (generation, matrix)
            return matrix

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        """Stored vectors, (ids, dim) float32."""
        matrix = self._matrix(model)
        return matrix.vectors[[matrix.position[doc_id] for doc_id in doc_ids]]

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        """Stored passages, one for each id."""
        dim = self._dim(model)
        columns = self._columns_by_id(_PASSAGES, doc_ids, model)
        return [_unpacked_passages(columns[doc_id][0], columns[doc_id][1], dim) for doc_id in doc_ids]

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents in the order of the ids."""
        columns = self._columns_by_id(_CONTENTS, doc_ids)
        return [Document(doc_id, *columns[doc_id]) for doc_id in doc_ids]

    def _columns_by_id(
        self, query: sa.Select[Any], doc_ids: Sequence[str], model: str = ""
    ) -> dict[str, tuple[Any, ...]]:
        with self._reading() as connection:
            rows = connection.execute(query, {"model": model, **_listed(doc_ids)}).all()
        return {row[0]: tuple(row[1:]) for row in rows}

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        """Everything stored, in batches, ordered by id."""
        dim = self._dim(model)
        query = (
            sa.select(
                _documents.c.doc_id,
                *_DOCUMENT,
                _vectors.c.vector,
                _vectors.c.known,
                _passages.c.vectors,
                _passages.c.offsets,
            )
            .join(_contents, _contents.c.row == _documents.c.row)
            .join(_vectors, _vectors.c.row == _documents.c.row)
            .join(_passages, sa.and_(_passages.c.row == _documents.c.row, _passages.c.model == _vectors.c.model))
            .where(_vectors.c.model == model)
            .order_by(_documents.c.doc_id)
            .limit(batch)
        )
        if lang is not None:
            query = query.where(_documents.c.lang == lang)
        last = ""
        while True:  # one transaction a page: a long scan blocks nobody
            with self._reading() as connection:
                rows = connection.execute(query.where(_documents.c.doc_id > last)).all()
            if not rows:
                return
            last = rows[-1][0]
            yield [_restored(tuple(row), dim) for row in rows]

    def sample(self, model: str, lang: str, count: int, *, seed: int = 0) -> list[str]:
        """Ids of documents of a language, drawn at random."""
        matrix = self._matrix(model)
        rows = matrix.languages.get(lang, slice(0, 0))
        drawn = np.random.default_rng(seed).permutation(rows.stop - rows.start)[:count]
        return [matrix.doc_ids[rows.start + row] for row in drawn]

    def ids(self) -> Iterator[str]:
        """Every stored id, ordered."""
        last = ""
        query = sa.select(_documents.c.doc_id).order_by(_documents.c.doc_id).limit(10_000)
        while True:
            with self._reading() as connection:
                page = list(connection.execute(query.where(_documents.c.doc_id > last)).scalars())
            if not page:
                return
            last = page[-1]
            yield from page

    def delete(self, doc_ids: Iterable[str]) -> int:
        """Delete documents with their vectors, passages and words; returns how many there were."""
        listed = list(doc_ids)
        with self._writing() as connection:
            if words.words_exist(connection):
                rows = self._documents(connection, listed).values()
                words.remove(connection, [(row.row, row.lang) for row in rows])
            removed = connection.execute(_documents.delete().where(_documents.c.doc_id.in_(_LIST)), _listed(listed))
            _count_change(connection)
        return removed.rowcount

    def publish(self) -> None:
        """Do nothing: readers see what is committed."""

    def drop(self) -> None:
        """Remove the file."""
        self.close()
        self._dims.clear()
        with self._guarded():
            remove_file(self.path)

    def count(self, model: str = "") -> dict[str, int]:
        """Number of documents by language; if a model is named, of documents with a vector of that model."""
        query = (
            sa.select(_documents.c.lang, sa.func.count().label("documents"))
            .group_by(_documents.c.lang)
            .order_by(_documents.c.lang)
        )
        if model:
            query = query.join(_vectors, _vectors.c.row == _documents.c.row).where(_vectors.c.model == model)
        with self._reading() as connection:
            return {row.lang: row.documents for row in connection.execute(query)}

    def close(self) -> None:
        """Close the file."""
        self._matrices.clear()
        self._engine.dispose()


def _advice(cause: BaseException) -> str:
    if isinstance(cause, OSError) or any(word in str(cause) for word in ("full", "readonly", "I/O", "unable to open")):
        return "see that the disk has room and the folder is yours, then run the command again"
    if "locked" in str(cause):
        return "another process holds it; run the command again when that is done"
    return "it is broken or of another version: remove the collection (dragoman delete --all) and index it again"


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


# Statements are built once: building a statement takes longer than running it.
_GENERATION = "SELECT generation FROM state"
_LIST = sa.select(sa.func.json_each(sa.bindparam("listed")).table_valued("value").c.value)  # any number of values
_DOCUMENT = (_documents.c.lang, _contents.c.text, _contents.c.title, _contents.c.fields, _documents.c.revision)
_DOCUMENTS = sa.select(_documents).where(_documents.c.doc_id.in_(_LIST))
_IDS = sa.select(_documents.c.row, _documents.c.doc_id).where(_documents.c.row.in_(_LIST))
_STAMPS = _DOCUMENTS.join(_vectors, _vectors.c.row == _documents.c.row).where(_vectors.c.model == sa.bindparam("model"))


def _selected(table: sa.Table, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """A query for listed documents: their ids and columns of another table."""
    joined = _documents.join(table, table.c.row == _documents.c.row)
    query = sa.select(_documents.c.doc_id, *columns).select_from(joined).where(_documents.c.doc_id.in_(_LIST))
    return query.where(table.c.model == sa.bindparam("model")) if "model" in table.c else query


_CONTENTS = _selected(_contents, *_DOCUMENT)
_PASSAGES = _selected(_passages, _passages.c.vectors, _passages.c.offsets)


def _matching(filters: Filters, column: sa.Column[Any]) -> sa.Select[Any]:
    """A query for a column of the documents that pass the filters."""
    query = sa.select(column).join(_contents, _contents.c.row == _documents.c.row)
    for name, wanted in filters.items():
        values = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        path = '$."{}"'.format(name.replace('"', '\\"'))
        items = sa.func.json_each(_contents.c.fields, path).table_valued("value", "type")
        text = sa.case((items.c.type.in_(("true", "false")), items.c.type), else_=sa.cast(items.c.value, sa.String))
        wanted_texts = [json.dumps(value) if isinstance(value, bool) else str(value) for value in values]
        query = query.where(sa.exists().select_from(items).where(text.in_(wanted_texts)))
    return query


def _begin(connection: sa.Connection) -> None:
    """Begin a transaction only for writes and snapshots: any other read is one statement, consistent by itself."""
    options = connection.get_execution_options()
    if options.get("write"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif options.get("snapshot"):
        connection.exec_driver_sql("BEGIN")


def _pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where ``_begin`` says
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _listed(values: Sequence[Any]) -> dict[str, str]:
    """The parameter of ``_LIST``."""
    return {"listed": json.dumps(values)}


def _count_change(connection: sa.Connection) -> None:
    connection.execute(_state.update().values(generation=_state.c.generation + 1))


def _content(row: int, item: StoredDocument) -> dict[str, Any]:
    document = item.document
    return {"row": row, "title": document.title, "text": document.text, "fields": dict(document.fields)}


def _vector(row: int, model: str, item: StoredDocument) -> dict[str, Any]:
    vector = np.ascontiguousarray(item.vector, dtype=np.float32).tobytes()
    return {"row": row, "model": model, "vector": vector, "known": bytes(item.known)}


def _passage(row: int, model: str, item: StoredDocument) -> dict[str, Any]:
    vectors = np.ascontiguousarray(item.passages.vectors, dtype=np.int8).tobytes()
    offsets = np.ascontiguousarray(item.passages.offsets, dtype=np.int32).tobytes()
    return {"row": row, "model": model, "vectors": vectors, "offsets": offsets}


def _unpacked_passages(vectors: bytes, offsets: bytes, dim: int) -> Passages:
    return Passages(
        np.frombuffer(vectors, dtype=np.int8).reshape(-1, dim), np.frombuffer(offsets, dtype=np.int32).reshape(-1, 2)
    )


def _ranked(hits: Sequence[tuple[int, float]], doc_ids: Mapping[int, str]) -> list[tuple[str, float]]:
    """Hits by id, best first, equal scores by id; rows without an id are left out."""
    scored = [(doc_ids[row], score) for row, score in hits if row in doc_ids]
    return sorted(scored, key=lambda hit: (-hit[1], hit[0]))


def _restored(row: tuple[Any, ...], dim: int) -> StoredDocument:
    doc_id, lang, text, title, fields, revision, vector, known, passages, offsets = row
    return StoredDocument(
        Document(doc_id, lang, text, title, fields, revision),
        np.frombuffer(vector, dtype=np.float32),
        _unpacked_passages(passages, offsets, dim),
        tuple(map(bool, known)),
    )
