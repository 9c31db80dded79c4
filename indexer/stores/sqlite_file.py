"""A SQLite file that several threads and processes read and write."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from encoders.errors import StoreError
from indexer.ledger import sqlite

_DAMAGED = "it is broken or of another version: remove the collection (dragoman delete --all) and index it again"


class SqliteFile:
    """A SQLite file, never made again after removal; its failures are a ``StoreError`` that says what to do."""

    def __init__(
        self, path: Path, *, make: bool = True, prepare: Callable[[sqlite3.Connection], None] = lambda _: None
    ) -> None:
        """Use the file at ``path``, made by the first transaction if ``make``; ``prepare`` gets each connection."""
        self.path, self.prepare, self._make = path, prepare, make
        self._free: list[sqlite.Connection] = []

    def _connection(self) -> sqlite.Connection:
        with suppress(IndexError):  # none is free
            while (connection := self._free.pop()).is_outdated:
                connection.close()
            return connection
        if not self._make and not self.path.is_file():
            raise StoreError(
                f"the store {self.path} is gone; bring it back, or remove the collection and index it again"
            )
        self._make = False
        connection = sqlite.connect(str(self.path), isolation_level=None, check_same_thread=False)
        self.prepare(connection)
        return connection

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Raise the failures of SQLite and of the file system as a ``StoreError``."""
        try:
            yield
        except (sqlite3.Error, OSError, *sqlite.UNREADABLE) as error:
            raise StoreError(
                f"the store {self.path} failed ({str(error).strip() or type(error).__name__}); "
                f"{sqlite.advice(error, _DAMAGED) or 'run the command again'}"
            ) from error

    @contextmanager
    def _transaction(self, begin: str = "") -> Iterator[sqlite3.Connection]:
        with self.store_errors():
            connection, free = self._connection(), self._free
            try:
                connection.execute(begin)
                yield connection
                if begin:
                    connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.rollback()
                connection.close()
                raise
            free.append(connection)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for one read, consistent by itself."""
        return self._transaction()

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """A transaction that holds the file's write lock from its start: what it reads is still true when it writes."""
        return self._transaction("BEGIN IMMEDIATE")

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        """A transaction for several reads of the same state of the file."""
        return self._transaction("BEGIN")

    def close(self) -> None:
        """Close the connections that are free; a connection in use is never used again."""
        free, self._free = self._free, []
        for connection in free:
            connection.close()
