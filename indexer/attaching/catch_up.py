"""Catch up with what the owner of an attached index writes: only documents whose text changed are encoded.

A pass reads the changes since the previous pass, by shard and sequence number. It encodes the documents whose text does
not match the stored hash or which have no vector. Our own writes are changes too, so passes are repeated until a pass
has nothing to write.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from encoders.console import Console, Progress
from encoders.document import Document, Encoded, Encoder
from indexer.elastic.changes import ShardPosition
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.indexing.storing import NOTHING_KNOWN
from indexer.ledger import attach_ledger
from indexer.ledger.attach_ledger import AttachLedger
from indexer.ledger.ledger import Note
from indexer.ledger.tables import REFUSED
from indexer.readers import Refusal
from indexer.stores.attached import entry_checks
from indexer.stores.attached.base import JoinedStore
from indexer.stores.contract import Stamp, StoredDocument

_IN_FLIGHT = 3
_PASSES = 5
"""Most passes of one call, however fast the owner writes."""


@dataclass(frozen=True)
class AttachReport:
    """What one call of ``catch_up`` did.

    Attributes:
        run: number of the run in the ledger.
        resumed: whether the index was attached before, so that only later changes were read.
        encoded: documents encoded and stored.
        unchanged: documents that the owner wrote since the last call and whose vectors still match their texts.
        removed: documents whose vectors were removed, because they can't be encoded any more or were deleted.
        refused: every document without a vector, with the reason.
        behind: whether the owner writes faster than passes are made.
        languages: number of searchable documents by language.
        seconds: duration of the call.
    """

    run: int
    resumed: bool
    encoded: int
    unchanged: int
    removed: int
    refused: list[Note]
    behind: bool
    languages: Mapping[str, int]
    seconds: float


def catch_up(
    store: JoinedStore, encoder: Encoder, engine: sa.Engine, collection: str, *, console: Console | None = None
) -> AttachReport:
    """Make passes over somebody else's index until every document has the vector of its text.

    Raises:
        BadInput: nothing was attached to the index yet, and it can't be attached to.
        StoreError: the server or the database failed; finished work stays stored, and the same call continues there.
    """
    started = time.monotonic()
    console = console or Console(quiet=True)
    spec = encoder.spec
    if not AttachLedger.knows(engine, collection, store.mark, spec.model):
        store.check(spec.model)
    if not store.users.attachment.companion:
        attach_ledger.remember(engine, collection, store.users.uuid, store.users.name)
    store.create(spec.model, spec.dim)
    source = f"elastic:{store.address.server}/{store.users.attachment.index}"
    ledger = AttachLedger.open(engine, collection, source, store.mark, spec.model, spec.build)
    counts = _Counts()
    behind, moved = True, ledger.interrupted
    with console.progress("attaching", None, "documents") as progress:
        for pass_number in range(_PASSES):
            pass_counts = _Pass(store, encoder, ledger, progress, first=pass_number == 0).run()
            counts.add(pass_counts)
            moved |= pass_counts.moved
            if not pass_counts.wrote:
                behind = False
                break
    if moved:
        counts.removed += _prune(store, ledger)
    store.publish()
    ledger.finish()
    return AttachReport(
        run=ledger.run.id,
        resumed=ledger.begun,
        encoded=counts.encoded,
        unchanged=counts.unchanged,
        removed=counts.removed,
        refused=[note for note in ledger.findings() if note.kind == REFUSED],
        behind=behind,
        languages=store.count(),
        seconds=time.monotonic() - started,
    )


def _prune(store: JoinedStore, ledger: AttachLedger) -> int:
    """Remove what was stored for documents that the owner deleted; returns the number of documents."""
    refused = ledger.refused()
    missing = sorted(store.gone(refused))
    pruned = store.prune(len(refused) - len(missing))
    if missing or pruned:
        ledger.gone(missing, pruned)
    return pruned


@dataclass
class _Counts:
    """Number of documents that passes encoded, left unchanged, removed and updated."""

    encoded: int = 0
    unchanged: int = 0
    removed: int = 0
    updated: int = 0
    moved: bool = False

    @property
    def wrote(self) -> bool:
        return bool(self.encoded or self.removed or self.updated)

    def add(self, counts: _Counts) -> None:
        self.encoded += counts.encoded
        self.unchanged += counts.unchanged
        self.removed += counts.removed
        self.updated += counts.updated


@dataclass
class _Page:
    """Changed documents of a shard, sorted by what has to be done with them."""

    shard: int
    upto: ShardPosition
    doc_ids: list[str]
    todo: list[Document] = field(default_factory=list)
    fields_only: list[Document] = field(default_factory=list)
    unchanged: int = 0
    notes: list[Note] = field(default_factory=list)
    to_forget: list[str] = field(default_factory=list)


class _Pass:
    """One pass over the changes: the caller's thread sorts and writes pages in order, two threads encode them."""

    def __init__(
        self, store: JoinedStore, encoder: Encoder, ledger: AttachLedger, progress: Progress, *, first: bool
    ) -> None:
        self.store, self.encoder, self.ledger, self.progress, self.first = store, encoder, ledger, progress, first
        self.model = encoder.spec.model
        self.counts = _Counts()
        self.pages_in_flight: deque[tuple[_Page, Future[Encoded] | None]] = deque()

    def run(self) -> _Counts:
        tops = {shard: top for shard, top in self.store.tops().items() if not self.ledger.is_at(shard, top)}
        if self.first:
            position = self.ledger.position
            self.progress.expect(
                sum(
                    self.store.count_changes(shard, above=position(shard, top), upto=top.seq_no)
                    for shard, top in tops.items()
                )
            )
        self.counts.moved = bool(tops)
        pool = ThreadPoolExecutor(2, thread_name_prefix="page")
        try:
            for shard, top in tops.items():
                self._read_shard(pool, shard, top)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return self.counts

    def _read_shard(self, pool: ThreadPoolExecutor, shard: int, top: ShardPosition) -> None:
        position = self.ledger.position(shard, top)
        for hits in self.store.changes(self.model, shard, CHUNK_DOCUMENTS, above=position, upto=top.seq_no):
            page = self._sorted_page(shard, replace(top, seq_no=hits[-1]["_seq_no"]), hits)
            encoding = pool.submit(self.encoder.encode_documents, page.todo) if page.todo else None
            self.pages_in_flight.append((page, encoding))
            while len(self.pages_in_flight) > _IN_FLIGHT:
                self._finish_next()
        while self.pages_in_flight:
            self._finish_next()
        self.ledger.advance(shard, top, [], [])

    def _sorted_page(self, shard: int, upto: ShardPosition, hits: Sequence[Mapping[str, Any]]) -> _Page:
        page = _Page(shard, upto, [hit["_id"] for hit in hits])
        stamps = self.store.held(self.model, hits)
        for hit in hits:
            stamp = stamps.get(hit["_id"])
            reading = self._read(hit, stamp)
            if isinstance(reading, Refusal):
                page.notes.append(Note(REFUSED, reading.where, reading.doc_id, reading.reason))
                if not self._must_not_update(hit):
                    page.to_forget.append(reading.doc_id)
            elif stamp is None or stamp.text_hash != reading.text_hash:
                page.todo.append(reading)
            elif stamp.fields_hash != reading.fields_hash:
                page.fields_only.append(reading)
            else:
                page.unchanged += 1
        return page

    def _read(self, hit: Mapping[str, Any], stamp: Stamp | None) -> Document | Refusal:
        doc_id = hit["_id"]
        if "_routing" in hit:
            return Refusal(doc_id, "it is placed by a routing value, so its id alone does not find it", doc_id)
        if self._must_not_update(hit):
            reason = (
                "its version is its owner's, whose next write an update would let the server refuse: see --companion"
            )
            return Refusal(doc_id, reason, doc_id)
        reading = self.store.users.document(doc_id, hit["_source"], assumed=stamp.lang if stamp else "")
        if stamp and isinstance(reading, Document) and reading.text_hash != stamp.text_hash:
            return self.store.users.document(doc_id, hit["_source"])  # the text changed: its language may have, too
        return reading

    def _must_not_update(self, hit: Mapping[str, Any]) -> bool:
        """Whether any update of a document would harm its owner, even one that removes our field."""
        return not self.store.users.attachment.companion and entry_checks.is_external(hit)

    def _finish_next(self) -> None:
        page, encoding = self.pages_in_flight.popleft()
        stored = 0
        if encoding is not None:
            stored = self._put(page, encoding.result())
        updated = self.store.keep_fields(page.fields_only) if page.fields_only else 0
        removed = self.store.forget(page.to_forget) if page.to_forget else 0
        unchanged = page.unchanged if self.first else 0
        self.ledger.advance(page.shard, page.upto, page.doc_ids, page.notes, encoded=stored, unchanged=unchanged)
        self.counts.add(_Counts(stored, unchanged, removed, updated))
        if self.first:
            self.progress(len(page.doc_ids))

    def _put(self, page: _Page, encoded: Encoded) -> int:
        """Store the encoded documents; returns their number. A document changed meanwhile waits for the next pass."""
        known = [bool(encoded.known[row].any()) for row in range(len(page.todo))]
        items = [StoredDocument.of(document, encoded, row) for row, document in enumerate(page.todo) if known[row]]
        report = self.store.put(self.model, items)
        reasons = {page.todo[row].doc_id: NOTHING_KNOWN for row, is_known in enumerate(known) if not is_known}
        reasons |= report.refused
        page.notes += [Note(REFUSED, doc_id, doc_id, reason) for doc_id, reason in reasons.items()]
        page.to_forget += reasons
        return report.stored
