"""SQLite files: how they are created and opened, also in a folder that can't be written, and advice for failures."""

import json
import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from encoders.folder.whole_folder import FILE_MODE
from encoders.zstd import ZstdError

UNREADABLE = (json.JSONDecodeError, UnicodeDecodeError, ZstdError)
"""What reading a damaged value raises: SQLite notices a damaged page only where the page has a structure."""
_SIGNS_OF_DAMAGE = "malformed", "not a database", "unsupported file format", "no such table", "no such column", "decode"
_PATIENCE = 30.0
"""Seconds to wait for another process that holds the file."""
_FOR_READING = "foreign_keys=ON", f"busy_timeout={1000 * _PATIENCE:.0f}"
_FOR_WRITING = *_FOR_READING, "journal_mode=WAL", "synchronous=FULL"
"""FULL: a commit is on the disk when it returns; NORMAL could lose the store's last commits but not the ledger's."""
_State = tuple[int, int, bool]


class Connection(sqlite3.Connection):
    """A connection that knows whether its file was opened as if nobody ever writes it, and somebody did."""

    file: Path
    state: _State | None = None  # the file's when it was opened for reading

    @property
    def is_outdated(self) -> bool:
        """Whether somebody else wrote the file since it was opened for reading."""
        return self.state is not None and _state_of(self.file) != self.state


def advice(cause: BaseException, damaged: str) -> str:
    """What to do about a failure of SQLite or of the file system: ``damaged`` for a damaged file; empty if unknown."""
    text = str(cause)
    if isinstance(cause, UNREADABLE) or any(words in text for words in _SIGNS_OF_DAMAGE):
        return damaged
    if "locked" in text:
        return "another process holds it; run the command again when that is done"
    if "readonly" in text:
        return "it can be read and not written; see that the file and its folder are yours, then run the command again"
    if isinstance(cause, OSError) or any(word in text for word in ("full", "I/O", "unable to open")):
        return "see that the disk has room and the folder is yours, then run the command again"
    return ""


def connect(place: str, **options: Any) -> Connection:
    """Open a file; a missing file is created, its folder is not. Raises sqlite3.Error, OSError.

    A file that can't be written is opened for reading: SQLite refuses a file in WAL mode where it can't write.
    """
    file = Path(place)
    named = place != ":memory:" and not options.get("uri")
    if named and not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, FILE_MODE))  # SQLite gives the files beside it the same mode
    connection = sqlite3.connect(place, **options, factory=Connection)
    try:
        return _with_pragmas(connection, _FOR_WRITING)
    except sqlite3.OperationalError:
        connection.close()
        by_effective_user = os.access in os.supports_effective_ids
        if not named or all(os.access(path, os.W_OK, effective_ids=by_effective_user) for path in (file, file.parent)):
            raise
    return _connect_for_reading(file, options)


def _connect_for_reading(file: Path, options: dict[str, Any]) -> Connection:
    """Open a file that can't be written.

    With a writer's files beside it SQLite reads what the writer commits. Without them SQLite may read the file as if
    nobody ever writes, until ``is_outdated`` finds that somebody did.
    """
    state = _, _, has_writer = _state_of(file)
    mode = "mode=ro" if has_writer else "mode=ro&immutable=1"
    place = f"file:{quote(str(file.absolute()))}?{mode}"
    connection = sqlite3.connect(place, **{**options, "uri": True}, factory=Connection)
    try:
        _with_pragmas(connection, (*_FOR_READING, "query_only=ON"))
    except sqlite3.Error:
        connection.close()
        raise
    connection.file, connection.state = file, state
    return connection


def _with_pragmas(connection: Connection, pragmas: tuple[str, ...]) -> Connection:
    cursor = connection.cursor()
    for pragma in pragmas:
        _execute_patiently(cursor, f"PRAGMA {pragma}")
    cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()  # SQLite opens the files only now
    cursor.close()
    return connection


def _execute_patiently(cursor: sqlite3.Cursor, statement: str) -> None:
    """Execute again while the file is locked: of two that begin WAL mode SQLite refuses one, whatever its timeout."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            cursor.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(random.uniform(0.01, 0.05))  # noqa: S311 - not for secrets
        else:
            return


def _state_of(file: Path) -> _State:
    """Time and size of a file, and whether a writer has commits in the file that ends with ``-wal``."""
    status, log = file.stat(), file.with_name(f"{file.name}-wal")
    return status.st_mtime_ns, status.st_size, log.exists() and log.stat().st_size > 0
