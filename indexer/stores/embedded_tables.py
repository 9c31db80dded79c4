"""Documents in the tables of an embedded store's file: every function runs its statements in an open transaction."""

# ruff: noqa: S608 - statements are made of constants

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from encoders.document import Document, Passages
from indexer.cluster.source_values import filter_texts
from indexer.stores.contract import Filters, Stamp, StoredDocument
from indexer.stores.field_filters import within

_OF_MODEL = """row INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
model VARCHAR NOT NULL REFERENCES models"""
_TABLES = (
    # ``generation`` counts changes, so that a reader sees them
    "state (generation INTEGER NOT NULL)",
    "models (model VARCHAR NOT NULL PRIMARY KEY, dim INTEGER NOT NULL)",
    "documents (row INTEGER NOT NULL PRIMARY KEY, doc_id VARCHAR NOT NULL UNIQUE, lang VARCHAR NOT NULL, "
    "revision BIGINT NOT NULL, text_hash VARCHAR NOT NULL, fields_hash VARCHAR NOT NULL)",
    # apart from ``documents``, so that reading ids touches no text
    "contents (row INTEGER NOT NULL PRIMARY KEY REFERENCES documents ON DELETE CASCADE, title VARCHAR NOT NULL, "
    "text VARCHAR NOT NULL, fields JSON NOT NULL)",
    f"vectors ({_OF_MODEL}, vector BLOB NOT NULL, known BLOB NOT NULL, PRIMARY KEY (row, model))",
    f"passages ({_OF_MODEL}, vectors BLOB NOT NULL, offsets BLOB NOT NULL, PRIMARY KEY (row, model))",
)
_WRITE = """INSERT INTO documents (doc_id, lang, revision, text_hash, fields_hash) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (doc_id) DO UPDATE SET lang = excluded.lang, revision = excluded.revision, text_hash = excluded.text_hash,
fields_hash = excluded.fields_hash"""
_ROW_LISTED, _ID_LISTED = (f"{column} IN (SELECT value FROM json_each(:listed))" for column in ("row", "doc_id"))
_DOCUMENTS = f"SELECT row, doc_id, lang, revision, text_hash, fields_hash FROM documents WHERE {_ID_LISTED}"
_STAMPS = f"""SELECT doc_id, lang, text_hash, fields_hash, revision FROM documents JOIN vectors USING (row)
WHERE {_ID_LISTED} AND model = :model"""
_CONTENTS = f"""SELECT doc_id, lang, text, title, fields, revision FROM documents JOIN contents USING (row)
WHERE {_ID_LISTED}"""
_PASSAGES = f"SELECT row, vectors, offsets FROM passages WHERE {_ROW_LISTED} AND model = :model"
_PLACES = "SELECT lang, doc_id, row FROM documents JOIN vectors USING (row) WHERE model = ? ORDER BY lang, doc_id"
_PAGE = """SELECT doc_id, lang, text, title, fields, revision, vector, known, passages.vectors, offsets
FROM documents JOIN contents USING (row) JOIN vectors USING (row) JOIN passages USING (row, model)
WHERE model = :model AND doc_id > :after {} ORDER BY doc_id LIMIT :size"""
_HAS = """EXISTS (SELECT 1 FROM json_each(fields, ?) AS item WHERE typeof(item.key) != 'text' AND CASE item.type
WHEN 'array' THEN has_value(item.value, '', ?) WHEN 'object' THEN 0
ELSE CASE WHEN item.type IN ('true', 'false') THEN item.type ELSE CAST(item.value AS VARCHAR) END IN ({}) END)"""
"""Whether a field has a wanted text: of an object its members are the items, and objects are no values."""


class DocumentRow(NamedTuple):
    """A row of the table ``documents``."""

    row: int
    doc_id: str
    lang: str
    revision: int
    text_hash: str
    fields_hash: str


def _listed(values: Collection[Any]) -> dict[str, str]:
    """The parameter of any number of values."""
    return {"listed": json.dumps(list(values))}


def create(connection: sqlite3.Connection) -> None:
    """Create missing tables."""
    for table in _TABLES:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
    connection.execute("CREATE INDEX IF NOT EXISTS ix_documents_lang ON documents (lang)")
    connection.execute("INSERT INTO state SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state)")


def change_number(connection: sqlite3.Connection) -> int:
    """How often the file was changed; its column is called ``generation``."""
    number: int = connection.execute("SELECT generation FROM state").fetchone()[0]
    return number


def count_change(connection: sqlite3.Connection) -> None:
    """Let readers see that the file has changed."""
    connection.execute("UPDATE state SET generation = generation + 1")


def add_model(connection: sqlite3.Connection, model: str, dim: int) -> None:
    """Register a model, unless it is registered."""
    connection.execute("INSERT OR IGNORE INTO models VALUES (?, ?)", (model, dim))


def models(connection: sqlite3.Connection) -> dict[str, int]:
    """Width of the vectors, by model id."""
    return dict(connection.execute("SELECT model, dim FROM models"))


def by_id(connection: sqlite3.Connection, doc_ids: Collection[str]) -> dict[str, DocumentRow]:
    """Rows of the table ``documents``, by id; unknown ids are left out."""
    return {row.doc_id: row for row in map(DocumentRow._make, connection.execute(_DOCUMENTS, _listed(doc_ids)))}


def ids_of_rows(connection: sqlite3.Connection, rows: Collection[int]) -> dict[int, str]:
    """Ids by row."""
    return dict(connection.execute(f"SELECT row, doc_id FROM documents WHERE {_ROW_LISTED}", _listed(rows)))


def forget(
    connection: sqlite3.Connection, model: str, items: Sequence[tuple[StoredDocument, DocumentRow | None]]
) -> None:
    """Remove the model's vectors that are replaced; if the text changed, also the vectors of other models."""
    unchanged = [row.row for item, row in items if row and row.text_hash == item.document.text_hash]
    changed = [row.row for item, row in items if row and row.text_hash != item.document.text_hash]
    for delete in (f"DELETE FROM {table} WHERE {_ROW_LISTED}" for table in ("vectors", "passages")):
        connection.execute(f"{delete} AND model = :model", {"model": model, **_listed(unchanged)})
        connection.execute(delete, _listed(changed))
    connection.execute(f"DELETE FROM contents WHERE {_ROW_LISTED}", _listed([*unchanged, *changed]))


def write(connection: sqlite3.Connection, model: str, items: Sequence[StoredDocument]) -> None:
    """Write documents whose earlier contents and vectors are removed."""
    names = DocumentRow._fields[1:]
    connection.executemany(_WRITE, [[getattr(item.document, name) for name in names] for item in items])
    rows = by_id(connection, [item.document.doc_id for item in items])
    for item in items:
        document, row = item.document, rows[item.document.doc_id].row
        arrays = (item.vector, np.float32), (item.passages.vectors, np.int8), (item.passages.offsets, np.int32)
        vector, vectors, offsets = (np.ascontiguousarray(array, dtype=kind).tobytes() for array, kind in arrays)
        content = row, document.title, document.text, json.dumps(dict(document.fields))
        connection.execute("INSERT INTO contents VALUES (?, ?, ?, ?)", content)
        connection.execute("INSERT INTO vectors VALUES (?, ?, ?, ?)", (row, model, vector, bytes(item.known)))
        connection.execute("INSERT INTO passages VALUES (?, ?, ?, ?)", (row, model, vectors, offsets))


def delete(connection: sqlite3.Connection, doc_ids: Collection[str]) -> int:
    """Delete documents; returns how many there were."""
    return connection.execute(f"DELETE FROM documents WHERE {_ID_LISTED}", _listed(doc_ids)).rowcount


def stamps(connection: sqlite3.Connection, model: str, doc_ids: Collection[str]) -> dict[str, Stamp]:
    """Stamps of the documents that have a vector of this model, by id."""
    rows = connection.execute(_STAMPS, {"model": model, **_listed(doc_ids)})
    return {doc_id: Stamp(*stamp) for doc_id, *stamp in rows}


def contents(connection: sqlite3.Connection, doc_ids: Collection[str]) -> dict[str, Document]:
    """Documents by id; unknown ids are left out."""
    return {row[0]: _document(*row) for row in connection.execute(_CONTENTS, _listed(doc_ids))}


def _document(doc_id: str, lang: str, text: str, title: str, fields: str, revision: int) -> Document:
    return Document(doc_id, lang, text, title, json.loads(fields), revision)


def passages(connection: sqlite3.Connection, model: str, ids: Mapping[int, str], dim: int) -> dict[str, Passages]:
    """Passages by id; ``ids`` are the documents' ids by row, and a document without passages is left out."""
    rows = connection.execute(_PASSAGES, {"model": model, **_listed(ids)}).fetchall()
    return {ids[row]: _unpacked_passages(vectors, offsets, dim) for row, vectors, offsets in rows}


def _unpacked_passages(vectors: bytes, offsets: bytes, dim: int) -> Passages:
    return Passages(
        np.frombuffer(vectors, dtype=np.int8).reshape(-1, dim), np.frombuffer(offsets, dtype=np.int32).reshape(-1, 2)
    )


def places(connection: sqlite3.Connection, model: str) -> list[tuple[str, str, int]]:
    """Language, id and row of every document with a vector of the model, ordered by language and id."""
    return connection.execute(_PLACES, (model,)).fetchall()


def vectors(connection: sqlite3.Connection, model: str) -> Iterator[tuple[int, bytes]]:
    """Row and vector of every document with a vector of the model, in no order, one in memory at a time."""
    return connection.execute("SELECT row, vector FROM vectors WHERE model = ?", (model,))


def page(
    connection: sqlite3.Connection, model: str, lang: str | None, after: str, size: int, dim: int
) -> list[StoredDocument]:
    """The next documents with a vector of the model, ordered by id; of one language, or of all (None)."""
    query = _PAGE.format("" if lang is None else "AND lang = :lang")
    return [
        StoredDocument(
            _document(*document),
            np.frombuffer(vector, dtype=np.float32),
            _unpacked_passages(passages, offsets, dim),
            tuple(map(bool, known)),
        )
        for *document, vector, known, passages, offsets in connection.execute(
            query, {"model": model, "lang": lang, "after": after, "size": size}
        )
    ]


def ids_after(connection: sqlite3.Connection, after: str, count: int) -> list[str]:
    """The next ids, ordered."""
    query = "SELECT doc_id FROM documents WHERE doc_id > ? ORDER BY doc_id LIMIT ?"
    return [doc_id for (doc_id,) in connection.execute(query, (after, count))]


def add_functions(connection: sqlite3.Connection) -> None:
    """Let a connection's queries look for values at paths through objects and nested arrays, which SQLite can't."""
    connection.create_function("has_value", 3, _has_value, deterministic=True)
    connection.create_function("has_within", 3, _has_within, deterministic=True)


def _has_value(fields: str, path: str, wanted: str | None) -> bool:
    """Whether a JSON value has one of the wanted texts, a JSON array, at a path; if none are wanted, any value."""
    texts = filter_texts(json.loads(fields), path)
    return bool(texts) if wanted is None else not texts.isdisjoint(json.loads(wanted))


def _has_within(fields: str, path: str, bounds: str) -> bool:
    """Whether a JSON value has a value within bounds, a JSON object, at a path."""
    limits = json.loads(bounds)
    return any(within(text, limits) for text in filter_texts(json.loads(fields), path))


def has_field(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a document has a value in the user's field of this name, with dots a path through objects."""
    if "\x00" in name:  # SQLite reads no such path
        return False
    query = f"""SELECT 1 FROM (SELECT fields, json_type(fields, :path) AS kind FROM contents) WHERE CASE
    WHEN {"kind IN ('array', 'object') OR kind IS NULL" if "." in name else "kind = 'array'"}
    THEN has_value(fields, :name, NULL) ELSE kind NOT IN ('object', 'null') END LIMIT 1"""
    return connection.execute(query, {"path": _path(name), "name": name}).fetchone() is not None


def field_names(connection: sqlite3.Connection) -> list[str]:
    """Names of all fields of the user's, ordered; this reads every document's fields."""
    return sorted(name for (name,) in connection.execute("SELECT DISTINCT key FROM contents, json_each(fields)"))


def _path(name: str) -> str:
    """SQLite's path of a field."""
    return '$."{}"'.format(name.replace('"', '\\"'))


def matching(connection: sqlite3.Connection, filters: Filters) -> dict[int, str]:
    """Ids by row of the documents that pass the filters: of each field one of the wanted values, as text, or in bounds.

    A name with dots is a path through objects, too. Values are found in arrays of any depth, but objects are no values.
    """
    if any("\x00" in name for name in filters):  # SQLite reads no such path
        return {}
    conditions, values = ["1"], list[str]()
    for name, wanted in filters.items():
        if isinstance(wanted, Mapping):
            conditions.append("has_within(fields, ?, ?)")
            values += [name, json.dumps(dict(wanted))]
            continue
        listed = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        texts = [json.dumps(value) if isinstance(value, bool) else str(value) for value in listed]
        has = _HAS.format(", ".join("?" for _ in texts))
        values += [_path(name), json.dumps(texts), *texts]
        if "." in name:  # a path through objects, too, which SQLite does not read: one of its beginnings has parts
            names = name.split(".")
            starts = [_path(".".join(names[:length])) for length in range(1, len(names))]
            has_parts = " OR ".join("json_type(fields, ?) IN ('object', 'array')" for _ in starts)
            has = f"({has} OR ({has_parts}) AND has_value(fields, ?, ?))"
            values += [*starts, name, json.dumps(texts)]
        conditions.append(has)
    query = f"SELECT row, doc_id FROM documents JOIN contents USING (row) WHERE {' AND '.join(conditions)}"
    return dict(connection.execute(query, values))


def count_rows(connection: sqlite3.Connection, rows: Collection[int], langs: Sequence[str]) -> int:
    """Number of documents of the rows that are in one of the languages."""
    query = f"SELECT count(*) FROM documents WHERE {_ROW_LISTED} AND lang IN (SELECT value FROM json_each(:langs))"
    count: int = connection.execute(query, {**_listed(rows), "langs": json.dumps(list(langs))}).fetchone()[0]
    return count


def count(connection: sqlite3.Connection, model: str = "") -> dict[str, int]:
    """Number of documents by language; if a model is named, of documents with a vector of that model."""
    with_vector = "JOIN vectors USING (row) WHERE model = :model" if model else ""
    query = f"SELECT lang, count(*) FROM documents {with_vector} GROUP BY lang ORDER BY lang"
    return dict(connection.execute(query, {"model": model}))
