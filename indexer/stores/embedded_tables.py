"""Documents in the tables of an embedded store's file: every function runs its statements in an open transaction."""

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from encoders.document import Document, Passages
from indexer.cluster.source_values import filter_texts
from indexer.stores.contract import Filters, Stamp, StoredDocument
from indexer.stores.field_filters import within

_ROWS = 1_000
"""Vectors read at a time."""
_metadata = sa.MetaData()

_state = sa.Table(
    "state",
    _metadata,
    sa.Column("generation", sa.Integer, nullable=False),  # counts changes, so that a reader sees them
)
_models = sa.Table(
    "models", _metadata, sa.Column("model", sa.String, primary_key=True), sa.Column("dim", sa.Integer, nullable=False)
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
_vectors, _passages = (
    sa.Table(
        name,
        _metadata,
        sa.Column("row", sa.ForeignKey("documents.row", ondelete="CASCADE"), primary_key=True),
        sa.Column("model", sa.ForeignKey("models.model"), primary_key=True),
        *(sa.Column(column, sa.LargeBinary, nullable=False) for column in columns),
    )
    for name, columns in (("vectors", ("vector", "known")), ("passages", ("vectors", "offsets")))
)


# Statements are built once: building a statement takes longer than running it.
_LIST = sa.select(sa.func.json_each(sa.bindparam("listed")).table_valued("value").c.value)  # any number of values
_DOCUMENT = (_documents.c.lang, _contents.c.text, _contents.c.title, _contents.c.fields, _documents.c.revision)
_DOCUMENTS = sa.select(_documents).where(_documents.c.doc_id.in_(_LIST))
_IDS = sa.select(_documents.c.row, _documents.c.doc_id).where(_documents.c.row.in_(_LIST))
_STAMPS = _DOCUMENTS.join(_vectors, _vectors.c.row == _documents.c.row).where(_vectors.c.model == sa.bindparam("model"))
_CONTENTS = (
    sa.select(_documents.c.doc_id, *_DOCUMENT)
    .join(_contents, _contents.c.row == _documents.c.row)
    .where(_documents.c.doc_id.in_(_LIST))
)
_PASSAGES = sa.select(_passages.c.row, _passages.c.vectors, _passages.c.offsets).where(
    _passages.c.row.in_(_LIST), _passages.c.model == sa.bindparam("model")
)


def _listed(values: Collection[Any]) -> dict[str, str]:
    """The parameter of ``_LIST``."""
    return {"listed": json.dumps(list(values))}


def create(connection: sa.Connection) -> None:
    """Create missing tables."""
    _metadata.create_all(connection)
    connection.execute(sa.text("INSERT INTO state SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state)"))


def change_number(connection: sa.Connection) -> int:
    """How often the file was changed; its column is called ``generation``."""
    number: int = connection.exec_driver_sql("SELECT generation FROM state").scalar_one()
    return number


def count_change(connection: sa.Connection) -> None:
    """Let readers see that the file has changed."""
    connection.execute(_state.update().values(generation=_state.c.generation + 1))


def add_model(connection: sa.Connection, model: str, dim: int) -> None:
    """Register a model, unless it is registered."""
    connection.execute(_models.insert().prefix_with("OR IGNORE"), {"model": model, "dim": dim})


def models(connection: sa.Connection) -> dict[str, int]:
    """Width of the vectors, by model id."""
    return {row.model: row.dim for row in connection.execute(sa.select(_models))}


def by_id(connection: sa.Connection, doc_ids: Collection[str]) -> dict[str, sa.Row[Any]]:
    """Rows of the table ``documents``, by id; unknown ids are left out."""
    return {row.doc_id: row for row in connection.execute(_DOCUMENTS, _listed(doc_ids))}


def ids_of_rows(connection: sa.Connection, rows: Collection[int]) -> dict[int, str]:
    """Ids by row."""
    return {row.row: row.doc_id for row in connection.execute(_IDS, _listed(rows))}


def forget(connection: sa.Connection, model: str, items: Sequence[tuple[StoredDocument, sa.Row[Any] | None]]) -> None:
    """Remove the model's vectors that are replaced; if the text changed, also the vectors of other models."""
    unchanged = [row.row for item, row in items if row and row.text_hash == item.document.text_hash]
    changed = [row.row for item, row in items if row and row.text_hash != item.document.text_hash]
    for table in (_vectors, _passages):
        connection.execute(table.delete().where(table.c.row.in_(_LIST), table.c.model == model), _listed(unchanged))
        connection.execute(table.delete().where(table.c.row.in_(_LIST)), _listed(changed))
    connection.execute(_contents.delete().where(_contents.c.row.in_(_LIST)), _listed([*unchanged, *changed]))


def write(connection: sa.Connection, model: str, items: Sequence[StoredDocument]) -> None:
    """Write documents whose earlier contents and vectors are removed."""
    upsert = sqlite.insert(_documents)
    columns = ("doc_id", "lang", "revision", "text_hash", "fields_hash")
    replaced = {name: upsert.excluded[name] for name in columns[1:]}
    connection.execute(
        upsert.on_conflict_do_update(index_elements=["doc_id"], set_=replaced),
        [{name: getattr(item.document, name) for name in columns} for item in items],
    )
    rows = by_id(connection, [item.document.doc_id for item in items])
    of_contents, of_vectors, of_passages = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for item in items:
        document, row = item.document, rows[item.document.doc_id].row
        vector = np.ascontiguousarray(item.vector, dtype=np.float32).tobytes()
        vectors = np.ascontiguousarray(item.passages.vectors, dtype=np.int8).tobytes()
        offsets = np.ascontiguousarray(item.passages.offsets, dtype=np.int32).tobytes()
        content = {"title": document.title, "text": document.text, "fields": dict(document.fields)}
        of_contents.append({"row": row, **content})
        of_vectors.append({"row": row, "model": model, "vector": vector, "known": bytes(item.known)})
        of_passages.append({"row": row, "model": model, "vectors": vectors, "offsets": offsets})
    for table, values in ((_contents, of_contents), (_vectors, of_vectors), (_passages, of_passages)):
        connection.execute(table.insert(), values)


def delete(connection: sa.Connection, doc_ids: Collection[str]) -> int:
    """Delete documents; returns how many there were."""
    return connection.execute(_documents.delete().where(_documents.c.doc_id.in_(_LIST)), _listed(doc_ids)).rowcount


def stamps(connection: sa.Connection, model: str, doc_ids: Collection[str]) -> dict[str, Stamp]:
    """Stamps of the documents that have a vector of this model, by id."""
    rows = connection.execute(_STAMPS, {"model": model, **_listed(doc_ids)})
    return {row.doc_id: Stamp(row.lang, row.text_hash, row.fields_hash, row.revision) for row in rows}


def contents(connection: sa.Connection, doc_ids: Collection[str]) -> dict[str, Document]:
    """Documents by id; unknown ids are left out."""
    return {row[0]: Document(*row) for row in connection.execute(_CONTENTS, _listed(doc_ids))}


def passages(connection: sa.Connection, model: str, ids: Mapping[int, str], dim: int) -> dict[str, Passages]:
    """Passages by id; ``ids`` are the documents' ids by row, and a document without passages is left out."""
    rows = connection.execute(_PASSAGES, {"model": model, **_listed(ids)}).all()
    return {ids[row]: _unpacked_passages(vectors, offsets, dim) for row, vectors, offsets in rows}


def _unpacked_passages(vectors: bytes, offsets: bytes, dim: int) -> Passages:
    return Passages(
        np.frombuffer(vectors, dtype=np.int8).reshape(-1, dim), np.frombuffer(offsets, dtype=np.int32).reshape(-1, 2)
    )


def places(connection: sa.Connection, model: str) -> list[tuple[str, str, int]]:
    """Language, id and row of every document with a vector of the model, ordered by language and id."""
    query = (
        sa.select(_documents.c.lang, _documents.c.doc_id, _documents.c.row)
        .join(_vectors, _vectors.c.row == _documents.c.row)
        .where(_vectors.c.model == model)
        .order_by(_documents.c.lang, _documents.c.doc_id)
    )
    return [(lang, doc_id, row) for lang, doc_id, row in connection.execute(query)]


def vectors(connection: sa.Connection, model: str) -> Iterator[tuple[int, bytes]]:
    """Row and vector of every document with a vector of the model, in no order, a thousand in memory at a time."""
    query = sa.select(_vectors.c.row, _vectors.c.vector).where(_vectors.c.model == model)
    yield from connection.execute(query.execution_options(yield_per=_ROWS))


def page(
    connection: sa.Connection, model: str, lang: str | None, after: str, size: int, dim: int
) -> list[StoredDocument]:
    """The next documents with a vector of the model, ordered by id; of one language, or of all (None)."""
    query = (
        sa.select(_documents.c.doc_id, *_DOCUMENT, *_vectors.c["vector", "known"], *_passages.c["vectors", "offsets"])
        .join(_contents, _contents.c.row == _documents.c.row)
        .join(_vectors, _vectors.c.row == _documents.c.row)
        .join(_passages, sa.and_(_passages.c.row == _documents.c.row, _passages.c.model == _vectors.c.model))
        .where(_vectors.c.model == model, _documents.c.doc_id > after)
        .order_by(_documents.c.doc_id)
        .limit(size)
    )
    if lang is not None:
        query = query.where(_documents.c.lang == lang)
    return [
        StoredDocument(
            Document(*document),
            np.frombuffer(vector, dtype=np.float32),
            _unpacked_passages(passages, offsets, dim),
            tuple(map(bool, known)),
        )
        for *document, vector, known, passages, offsets in connection.execute(query)
    ]


def ids_after(connection: sa.Connection, after: str, count: int) -> list[str]:
    """The next ids, ordered."""
    query = sa.select(_documents.c.doc_id).order_by(_documents.c.doc_id).limit(count)
    return list(connection.execute(query.where(_documents.c.doc_id > after)).scalars())


def add_functions(connection: sqlite3.Connection, _record: object) -> None:
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


def has_field(connection: sa.Connection, name: str) -> bool:
    """Whether a document has a value in the user's field of this name, with dots a path through objects."""
    if "\x00" in name:  # SQLite reads no such path
        return False
    kind = sa.func.json_type(_contents.c.fields, _path(name))
    has = sa.case(
        (
            kind.in_(("array", "object")) | kind.is_(None) if "." in name else kind == "array",
            sa.func.has_value(_contents.c.fields, name, None),
        ),
        else_=kind.is_not(None) & kind.not_in(("object", "null")),
    )
    return connection.execute(sa.select(_contents.c.row).where(has).limit(1)).first() is not None


def field_names(connection: sa.Connection) -> list[str]:
    """Names of all fields of the user's, ordered; this reads every document's fields."""
    items = sa.func.json_each(_contents.c.fields).table_valued("key")
    query = sa.select(items.c.key).select_from(_contents.join(items, sa.true())).distinct()
    return sorted(connection.execute(query).scalars())


def _may_lead_into(name: str) -> sa.ColumnElement[bool]:
    """Whether a field that a path may begin with is there and has parts."""
    names = name.split(".")
    starts = [".".join(names[:length]) for length in range(1, len(names))]
    kinds = [sa.func.json_type(_contents.c.fields, _path(start)) for start in starts]
    return sa.or_(*(kind.in_(("object", "array")) for kind in kinds))


def _path(name: str) -> str:
    """SQLite's path of a field."""
    return '$."{}"'.format(name.replace('"', '\\"'))


def matching(connection: sa.Connection, filters: Filters) -> dict[int, str]:
    """Ids by row of the documents that pass the filters: of each field one of the wanted values, as text, or in bounds.

    A name with dots is a path through objects, too. Values are found in arrays of any depth, but objects are no values.
    """
    query = sa.select(_documents.c.row, _documents.c.doc_id).join(_contents, _contents.c.row == _documents.c.row)
    if any("\x00" in name for name in filters):  # SQLite reads no such path
        return {}
    for name, wanted in filters.items():
        if isinstance(wanted, Mapping):
            query = query.where(sa.func.has_within(_contents.c.fields, name, json.dumps(dict(wanted))))
            continue
        listed = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        wanted_texts = [json.dumps(value) if isinstance(value, bool) else str(value) for value in listed]
        items = sa.func.json_each(_contents.c.fields, _path(name)).table_valued("key", "value", "type")
        text = sa.case((items.c.type.in_(("true", "false")), items.c.type), else_=sa.cast(items.c.value, sa.String))
        passes = sa.case(
            (items.c.type == "array", sa.func.has_value(items.c.value, "", json.dumps(wanted_texts))),
            (items.c.type == "object", False),
            else_=text.in_(wanted_texts),
        )
        no_object = sa.func.typeof(items.c.key) != "text"  # of an object its members are the items
        has: sa.ColumnElement[bool] = sa.exists().select_from(items).where(no_object, passes)
        if "." in name:  # a path through objects, too, which SQLite does not read
            has = has | _may_lead_into(name) & sa.func.has_value(_contents.c.fields, name, json.dumps(wanted_texts))
        query = query.where(has)
    return {row.row: row.doc_id for row in connection.execute(query)}


def count_rows(connection: sa.Connection, rows: Collection[int], langs: Sequence[str]) -> int:
    """Number of documents of the rows that are in one of the languages."""
    query = sa.select(sa.func.count()).where(_documents.c.row.in_(_LIST), _documents.c.lang.in_(langs))
    return connection.execute(query, _listed(rows)).scalar_one()
