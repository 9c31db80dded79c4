"""Rows of the database for commands that only look: of SQLite without SQLAlchemy, which takes longest to import."""

import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, overload
from urllib.parse import quote, unquote

from indexer.ledger import migrations

_SQLITE = "sqlite:///"
_JSON = {"building", "previous", "sources", "builds", "summary"}

Rows = Callable[..., list[SimpleNamespace]]
"""The rows of a query; its ``:name`` are keyword arguments."""
_Read = TypeVar("_Read")


@overload
def read_rows(url: str, read: Callable[[Rows], _Read]) -> _Read: ...
@overload
def read_rows(url: str, read: Callable[[Rows], _Read], *, prepare: bool) -> _Read | None: ...
def read_rows(url: str, read: Callable[[Rows], _Read], *, prepare: bool = True) -> _Read | None:
    """Return what ``read`` makes of a database's rows; SQLAlchemy reads what the standard library can't.

    ``prepare=False`` makes and upgrades no tables: None if they are another version's. Raises StoreError.
    """
    with suppress(sqlite3.Error, ValueError):
        if url.startswith(_SQLITE) and "?" not in url:
            place = f"file:{quote(unquote(url.removeprefix(_SQLITE)))}?mode=rw"
            with closing(sqlite3.connect(place, isolation_level=None, uri=True)) as reader:
                reader.row_factory = sqlite3.Row
                reader.execute("BEGIN")
                rows = partial(_rows, reader.execute)
                if [row.version_num for row in rows("SELECT version_num FROM alembic_version")] == [migrations.head()]:
                    return read(rows)
    import sqlalchemy as sa  # noqa: PLC0415

    from indexer.ledger import database  # noqa: PLC0415

    if not prepare and database.is_missing(url):
        return None
    engine = database.connect(url) if prepare else database.open_engine(url)
    try:
        if not (prepare or database.is_current(engine)):
            return None
        with database.reading(engine) as connection:
            return read(partial(_rows, lambda query, values: connection.execute(sa.text(query), values).mappings()))
    finally:
        engine.dispose()


def collection_names(rows: Rows) -> list[str]:
    """Names of all collections."""
    return [row.name for row in rows("SELECT name FROM collections ORDER BY name")]


def _rows(execute: Callable[..., Iterable[Any]], query: str, **values: Any) -> list[SimpleNamespace]:
    rows = [dict(row) for row in execute(query, values)]
    for row in rows:
        row.update({name: json.loads(row[name]) for name in _JSON & row.keys() if isinstance(row[name], str | bytes)})
    return [SimpleNamespace(**row) for row in rows]
