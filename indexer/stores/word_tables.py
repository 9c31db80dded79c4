"""The words of an embedded store: BM25 tables in the store's own file, updated with it after their first use.

Encoding a document takes a hundred times as long as indexing its words (130 ms to 1 ms on lohelp), but words make the
file half as large again, and only hybrid searches read them. So the first hybrid search indexes them, one transaction a
batch, and resumes if killed; from then on every write to documents writes their words in its transaction.
"""

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indexer.text.terms import LexicalIndex

WITHOUT_WORDS, WITH_WORDS = 1, 2
"""``user_version`` of a file without words, and of a file with words."""
_BATCH = 500

_NEXT = "SELECT row, lang, title, text FROM documents JOIN contents USING (row) WHERE row > ? ORDER BY row LIMIT ?"


def version(connection: sqlite3.Connection) -> int:
    """The file's ``user_version``; 0 for a new file."""
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return number


def words_exist(connection: sqlite3.Connection) -> bool:
    """Whether the file has words, so that a write to the documents must write their words too."""
    return version(connection) == WITH_WORDS


def are_complete(connection: sqlite3.Connection) -> bool:
    """Whether every document's words are indexed."""
    return words_exist(connection) and _upto(connection) is None


def _upto(connection: sqlite3.Connection) -> int | None:
    """The row up to which documents are indexed; none: all are."""
    upto: int | None = connection.execute("SELECT upto FROM words").fetchone()[0]
    return upto


def index_batch(connection: sqlite3.Connection) -> None:
    """Index the words of the next batch of documents; to be called in a write transaction."""
    if not words_exist(connection):
        connection.execute("CREATE TABLE words (upto INTEGER)")
        connection.execute("INSERT INTO words VALUES (0)")
        connection.execute(f"PRAGMA user_version = {WITH_WORDS}")
    upto = _upto(connection)
    if upto is None:
        return
    rows = connection.execute(_NEXT, (upto, _BATCH)).fetchall()
    add(connection, [(row, lang, f"{title}\n{text}") for row, lang, title, text in rows])
    connection.execute("UPDATE words SET upto = ?", (rows[-1][0] if rows else None,))


def add(connection: sqlite3.Connection, documents: Iterable[tuple[int, str, str]]) -> None:
    """Index texts given as (row, language, text); a row's earlier text in the language is replaced."""
    by_lang: dict[str, list[tuple[int, str]]] = {}
    for row, lang, text in documents:
        by_lang.setdefault(lang, []).append((row, text))
    for lang, texts in by_lang.items():
        _index(connection, lang).add(texts)


def remove(connection: sqlite3.Connection, documents: Iterable[tuple[int, str]]) -> None:
    """Remove the words of documents given as (row, language); unknown rows are ignored."""
    by_lang: dict[str, list[int]] = {}
    for row, lang in documents:
        by_lang.setdefault(lang, []).append(row)
    for lang, rows in by_lang.items():
        _index(connection, lang).remove(rows)


def search(connection: sqlite3.Connection, text: str, lang: str, k: int, among: str | None) -> list[tuple[int, float]]:
    """Rows of one language that share terms with a text, with BM25 scores, best first; only ``among``, a JSON array."""
    return _index(connection, lang).search(text, k, among)


def _index(connection: sqlite3.Connection, lang: str) -> "LexicalIndex":
    from indexer.text.terms import LexicalIndex  # noqa: PLC0415 - only hybrid searches need its patterns

    return LexicalIndex(connection, lang)
