"""Ids that more than one document of the sources has: find them, and say where the documents stand."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.indexing.wanted_documents import OnDuplicate
from indexer.ledger.findings import Finding
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
    if repeated := repeated_ids(sources, options):
        raise BadInput(
            f"{_sentence({doc_id: ' and '.join(places[:2]) for doc_id, places in repeated.items()})}; nothing was "
            "indexed. Give the documents ids of their own, or choose with --on-duplicate last or first"
        )


def warn_of_duplicates(findings: Iterable[Finding], on_duplicate: OnDuplicate, console: Console) -> None:
    """Warn of the ids that a run met more than once, by its findings, even if the console is quiet."""
    repeated: dict[str, str] = {}
    for finding in findings:
        if finding.is_duplicate:
            repeated.setdefault(finding.doc_id, f"again at {finding.place}")
    if repeated:
        winner = "first" if on_duplicate == "first" else "last"
        console.warn(
            f"{_sentence(repeated)}; of each, only the {winner} document of the highest revision "
            "counts. Give the documents ids of their own, or choose with --on-duplicate last, first or error"
        )


def repeated_ids(sources: Sequence[str], options: ReadOptions) -> dict[str, list[str]]:
    """Ids that more than one document of the sources has, in the order of the sources, and the documents' places.

    The sources are read once, and once more if there are such ids. Memory is 8 bytes a document, and the places.
    """
    keys = np.sort(np.array(array("q", (id_key(document.doc_id) for document in _documents(sources, options)))))
    repeated_keys = set(keys[1:][keys[1:] == keys[:-1]].tolist())
    if not repeated_keys:
        return {}
    places: dict[str, list[str]] = {}
    for document in _documents(sources, options):
        if id_key(document.doc_id) in repeated_keys:
            places.setdefault(document.doc_id, []).append(document.place)
    return {doc_id: id_places for doc_id, id_places in places.items() if len(id_places) > 1}


def _sentence(places: Mapping[str, str]) -> str:
    """How many ids stand more than once, and the places of the first ids."""
    examples = ", ".join(f"{doc_id} ({place})" for doc_id, place in islice(places.items(), _SHOWN))
    more = f" and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
    return f"{counted(len(places), 'id stands', 'ids stand')} more than once in the sources: {examples}{more}"


def _documents(sources: Sequence[str], options: ReadOptions) -> Iterator[Document]:
    return (reading for reading in read_all(sources, options) if isinstance(reading, Document))
