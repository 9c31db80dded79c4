"""A SQLite file that several threads and processes read and write."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from encoders.errors import StoreError
from indexer.ledger import sqlite

_DAMAGED = "it is broken or of another version: remove the collection (dragoman delete --all) and index it again"


class SqliteFile:
    """A SQLite file, never made again after removal; its failures are a ``StoreError`` that says what to do."""

    def __init__(self, path: Path, *, make: bool = True) -> None:
        """Use the file at ``path``; with ``make`` the first transaction creates a missing file."""
        self.path, self._make = path, make
        self.engine = sqlite.sqlite_engine(
            sa.URL.create("sqlite", database=str(path)),
            before_connecting=self._require_file,
            pool_reset_on_return=None,  # reads open no transaction
        )
        sa.event.listen(self.engine, "connect", _begin_nowhere)
        sa.event.listen(self.engine, "begin", _begin)

    def _require_file(self) -> None:
        if not self._make and not self.path.is_file():
            raise StoreError(
                f"the store {self.path} is gone; bring it back, or remove the collection and index it again"
            )
        self._make = False

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Raise the failures of SQLite and of the file system as a ``StoreError``."""
        try:
            yield
        except (sa.exc.DBAPIError, sqlite3.Error, OSError, *sqlite.UNREADABLE) as error:
            cause = getattr(error, "orig", None) or error
            raise StoreError(
                f"the store {self.path} failed ({str(cause).strip() or type(cause).__name__}); "
                f"{sqlite.advice(cause, _DAMAGED) or 'run the command again'}"
            ) from error

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for one read."""
        with self.store_errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that holds the file's write lock from its start: what it reads is still true when it writes."""
        with self.store_errors(), self.engine.execution_options(write=True).begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """A transaction for several reads of the same state of the file."""
        with self.store_errors(), self.engine.execution_options(snapshot=True).begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _begin(connection: sa.Connection) -> None:
    """Begin a transaction only for writes and snapshots: any other read is one statement, consistent by itself."""
    options = connection.get_execution_options()
    if options.get("write"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif options.get("snapshot"):
        connection.exec_driver_sql("BEGIN")


def _begin_nowhere(connection: Any, _record: Any) -> None:
    """Keep the driver from beginning transactions: they begin where ``_begin`` says."""
    connection.isolation_level = None
