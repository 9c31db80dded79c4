"""Ids that more than one document of the sources has: find them, and say where the documents stand."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.indexing.wanted_documents import OnDuplicate
from indexer.ledger.index_runs import RunLedger
from indexer.ledger.ledger import id_key
from indexer.readers.formats import read_all
from indexer.readers.source import ReadOptions

_SHOWN = 3
"""Maximum number of ids that a sentence names."""


def refuse_duplicates(sources: Sequence[str], options: ReadOptions) -> None:
    """Read the sources, and refuse them if an id stands more than once.

    Raises:
        BadInput: ids stand more than once; or as in ``read``.
    """
    if doc_ids := repeated_ids(sources, options):
        raise BadInput(
            f"{_sentence(doc_ids, sources, options)}; nothing was indexed. Give the documents ids of their own, or "
            "choose with --on-duplicate last or first"
        )


def warn_of_duplicates(
    ledger: RunLedger, sources: Sequence[str], options: ReadOptions, on_duplicate: OnDuplicate, console: Console
) -> None:
    """Warn of the ids that a run met more than once, even if the console is quiet."""
    if doc_ids := ledger.duplicates():
        winner = "first" if on_duplicate == "first" else "last"
        console.warn(
            f"{_sentence(doc_ids, sources, options)}; of each, only the {winner} document of the highest revision "
            "counts. Give the documents ids of their own, or choose with --on-duplicate last, first or error"
        )


def repeated_ids(sources: Sequence[str], options: ReadOptions) -> list[str]:
    """Ids that more than one document of the sources has, in the order of the sources.

    The sources are read once, and once more if there are such ids. Memory is 8 bytes a document, and the ids.
    """
    keys = np.sort(np.array(array("q", (id_key(document.doc_id) for document in _documents(sources, options)))))
    repeated_keys = set(keys[1:][keys[1:] == keys[:-1]].tolist())
    if not repeated_keys:
        return []
    doc_ids = (document.doc_id for document in _documents(sources, options))
    counts = Counter(doc_id for doc_id in doc_ids if id_key(doc_id) in repeated_keys)
    return [doc_id for doc_id, count in counts.items() if count > 1]


def _sentence(doc_ids: Sequence[str], sources: Sequence[str], options: ReadOptions) -> str:
    """How many ids stand more than once, and the places of the first ids."""
    places = _first_places(doc_ids[:_SHOWN], sources, options)
    examples = ", ".join(f"{doc_id} ({' and '.join(places[doc_id])})" for doc_id in doc_ids[:_SHOWN])
    more = f" and {len(doc_ids) - _SHOWN:,} more" if len(doc_ids) > _SHOWN else ""
    return f"{counted(len(doc_ids), 'id stands', 'ids stand')} more than once in the sources: {examples}{more}"


def _first_places(doc_ids: Collection[str], sources: Sequence[str], options: ReadOptions) -> dict[str, list[str]]:
    """The first two places of each id; the sources are read until all places are found."""
    places: dict[str, list[str]] = {doc_id: [] for doc_id in doc_ids}
    missing = 2 * len(places)
    for document in _documents(sources, options):
        id_places = places.get(document.doc_id)
        if id_places is not None and len(id_places) < 2:
            id_places.append(document.place)
            missing -= 1
            if not missing:
                break
    return places


def _documents(sources: Sequence[str], options: ReadOptions) -> Iterator[Document]:
    return (reading for reading in read_all(sources, options) if isinstance(reading, Document))
