"""Documents that sources or a collection have twice: one id of several documents, or a document by a former id, too."""

import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal, get_args

import numpy as np

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.ledger.findings import DUPLICATE
from indexer.ledger.ledger import id_key
from indexer.ledger.tables import IndexRun
from indexer.readers.formats import count_distinct, is_path, read_all
from indexer.readers.records.files import source_files
from indexer.readers.records.source import Reading, ReadOptions, Remark
from indexer.stores.contract import VectorStore

OnDuplicate = Literal["error", "last", "first"]
"""With several documents of an id: nothing is indexed, or the last or first of the highest revision counts."""
ON_DUPLICATE: tuple[OnDuplicate, ...] = get_args(OnDuplicate)
_SHOWN = 3
"""Maximum number of ids that a sentence names."""
_FILES = 20
"""Files of a source that are looked for in the collection."""


@dataclass(frozen=True)
class Survey:
    """What sources hold, before a run reads them."""

    records: int | None  # number of documents and refusals that the run will meet; None: unknown
    winners: Mapping[str, int]  # by id that several documents have, which of them counts: its number among them, from 1


def survey(sources: Sequence[str], options: ReadOptions, on_duplicate: OnDuplicate, console: Console) -> Survey:
    """Read the sources for their ids, and again if an id stands more than once; 8 bytes of memory a document.

    A single source whose ids are distinct in themselves is not read. Raises BadInput: ids stand more than once, and
    ``on_duplicate`` is ``"error"``; or as in ``read``.
    """
    if len(sources) == 1 and (count := count_distinct(sources[0], options)) is not None:
        return Survey(count or None, {})
    keys, records = array("q"), 0
    with console.if_slow("reading the sources for their ids …"):
        for reading in read_all(sources, options):
            records += not isinstance(reading, Remark)
            if isinstance(reading, Document):
                keys.append(id_key(reading.doc_id))
        ordered_keys = np.sort(np.array(keys))
        repeated_keys = set(ordered_keys[1:][ordered_keys[1:] == ordered_keys[:-1]].tolist())
        places, winners = _repeated(sources, options, repeated_keys, on_duplicate) if repeated_keys else ({}, {})
    if places and on_duplicate == "error":
        examples = ", ".join(f"{doc_id} ({' and '.join(at[:2])})" for doc_id, at in islice(places.items(), _SHOWN))
        more = f" and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
        raise BadInput(
            f"{counted(len(places), 'id stands', 'ids stand')} more than once in the sources: {examples}{more}; "
            "nothing was indexed. Give the documents ids of their own (whole files: name the folder above), or choose "
            "with --on-duplicate last or first"
        )
    return Survey(records - sum(len(id_places) - 1 for id_places in places.values()), winners)


def without_losers(readings: Iterable[Reading], winners: Mapping[str, int]) -> Iterator[Reading]:
    """The readings, with a remark for each document in whose place another of its id counts."""
    met: Counter[str] = Counter()
    for reading in readings:
        if isinstance(reading, Document) and reading.doc_id in winners:
            met[reading.doc_id] += 1
            if met[reading.doc_id] != winners[reading.doc_id]:
                yield Remark(reading.place or reading.doc_id, DUPLICATE, reading.doc_id)
                continue
        yield reading


def _repeated(
    sources: Sequence[str], options: ReadOptions, keys: set[int], on_duplicate: OnDuplicate
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The places of the documents of each id that several have, in the order of the sources, and which counts."""
    places: dict[str, list[str]] = {}
    winners: dict[str, tuple[int, int]] = {}
    for reading in read_all(sources, options):
        if isinstance(reading, Document) and id_key(reading.doc_id) in keys:
            places.setdefault(reading.doc_id, []).append(reading.place)
            revision, _ = winners.get(reading.doc_id, (-1, 0))
            if reading.revision > revision or (reading.revision == revision and on_duplicate != "first"):
                winners[reading.doc_id] = reading.revision, len(places[reading.doc_id])
    places = {doc_id: id_places for doc_id, id_places in places.items() if len(id_places) > 1}
    return places, {doc_id: winners[doc_id][1] for doc_id in places}


def refuse_former_ids(sources: Sequence[str], store: VectorStore, model: str, earlier: Iterable[IndexRun]) -> None:
    """Refuse sources whose files a collection holds by other ids, for each would be stored a second time.

    An earlier version left a single source's name out, and put more folders before equal names. Raises BadInput: an
    ``earlier`` run read a source, and the store has its files by the former ids alone.
    """
    indexed = {source for run in earlier for source in run.sources}
    for source in (source for source in sources if source in indexed and is_path(source)):
        names = [PurePath(file.name).parts for file in islice(source_files(Path(source)), _FILES)]
        present_ids = {doc_id for name in names for doc_id in _ids("/".join(name))}
        folders = Path(os.path.normpath(source)).parent.parts[1:]
        prefixes = [folders[start:] for start in range(len(folders))]
        former_ids = {
            doc_id: "/".join(name)
            for name in names
            for former_name in (name[1:], *((*prefix, *name) for prefix in prefixes))
            if former_name
            for doc_id in _ids("/".join(former_name))
        }
        stored_ids = store.stamps(model, [*present_ids, *former_ids]).keys()
        if former := next((doc_id for doc_id in former_ids if doc_id in stored_ids), None):
            if stored_ids & present_ids:
                continue
            raise BadInput(
                f"the collection has the files of {source} by ids that an earlier version gave them ({former}; now "
                f"{former_ids[former]}): index all its sources with --prune, or build it anew with --rebuild"
            )


def _ids(name: str) -> Iterator[str]:
    """Ids of a file that is a document, and of the first of its records without an id."""
    return iter((name, f"{name}:1", f"{name}:2", f"{name}#1"))
