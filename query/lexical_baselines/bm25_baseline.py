"""BM25 ranking within the topic's language: what a search engine finds without an encoder."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing

from encoders.document import Document
from indexer.text.terms import LexicalIndex
from query.trec_files.trec_run import RunEntry


def rank_by_bm25(
    documents: Iterable[Document], queries: Sequence[Document], lang: str, *, k: int = 1000
) -> list[list[RunEntry]]:
    """For each query up to ``k`` documents of one language with BM25 scores, best first; each shares a word with it.

    The index is a temporary SQLite database, which moves to disk as it grows and is deleted afterwards.
    """
    doc_ids: list[str] = []
    with closing(sqlite3.connect("")) as connection:
        index = LexicalIndex(connection, lang)
        index.add(_numbered(documents, doc_ids))
        return [[(doc_ids[key], score) for key, score in index.search(query.content, k)] for query in queries]


def _numbered(documents: Iterable[Document], doc_ids: list[str]) -> Iterable[tuple[int, str]]:
    for key, document in enumerate(documents):
        doc_ids.append(document.doc_id)
        yield key, document.content
