"""Keep up with what the owner of an attached index writes: only what has another text is encoded.

A pass reads what changed since the last one, by shard and sequence number, and encodes what has another text than our
hash says, or no vector. Our own writes are changes too, so passes are made until one has nothing to write.
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
"""At the most before a report is made, however fast the owner writes."""


@dataclass(frozen=True)
class AttachReport:
    """What was done to keep up.

    Attributes:
        run: its number in the ledger.
        resumed: whether the index was attached before, and what came since was looked at.
        encoded: documents encoded and attached.
        unchanged: documents that were written since, and whose vectors fit.
        removed: documents from which what was attached was taken, for they can't be encoded any more, or are gone.
        refused: all documents to which nothing is attached, and why.
        behind: whether the owner writes faster than passes are made.
        languages: documents that can be found, by language.
        seconds: it took.
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

    Args:
        store: over that index.
        encoder: makes the vectors.
        engine: database of the ledger.
        collection: name the run is kept under.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: it is an index that nothing was attached to yet, and nothing can be.
        StoreError: server or database failed; what is done stays done, and the same call goes on there.
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
    done = _Done()
    behind, moved = True, ledger.interrupted
    with console.progress("attaching", None, "documents") as progress:
        for number in range(_PASSES):
            passed = _Pass(store, encoder, ledger, progress, first=number == 0).run()
            done.add(passed)
            moved |= passed.moved
            if not passed.wrote:
                behind = False
                break
    if moved:
        done.removed += _prune(store, ledger)
    store.publish()
    ledger.finish()
    return AttachReport(
        run=ledger.run.id,
        resumed=ledger.begun,
        encoded=done.encoded,
        unchanged=done.unchanged,
        removed=done.removed,
        refused=[note for note in ledger.findings() if note.kind == REFUSED],
        behind=behind,
        languages=store.count(),
        seconds=time.monotonic() - started,
    )


def _prune(store: JoinedStore, ledger: AttachLedger) -> int:
    """See to what the owner deleted."""
    refused = ledger.refused()
    missing = sorted(store.gone(refused))
    pruned = store.prune(len(refused) - len(missing))
    if missing or pruned:
        ledger.gone(missing, pruned)
    return pruned


@dataclass
class _Done:
    """What some passes did."""

    encoded: int = 0
    unchanged: int = 0
    removed: int = 0
    updated: int = 0
    moved: bool = False

    @property
    def wrote(self) -> bool:
        return bool(self.encoded or self.removed or self.updated)

    def add(self, other: _Done) -> None:
        self.encoded += other.encoded
        self.unchanged += other.unchanged
        self.removed += other.removed
        self.updated += other.updated


@dataclass
class _Page:
    """Documents of a shard that were written since, sorted by what becomes of them."""

    shard: int
    upto: ShardPosition
    doc_ids: list[str]
    todo: list[Document] = field(default_factory=list)
    fields_only: list[Document] = field(default_factory=list)
    unchanged: int = 0
    notes: list[Note] = field(default_factory=list)
    to_forget: list[str] = field(default_factory=list)


class _Pass:
    """One reading of what changed: judged and written by the caller's thread in its order, encoded by two others."""

    def __init__(
        self, store: JoinedStore, encoder: Encoder, ledger: AttachLedger, progress: Progress, *, first: bool
    ) -> None:
        self.store, self.encoder, self.ledger, self.progress, self.first = store, encoder, ledger, progress, first
        self.model = encoder.spec.model
        self.done = _Done()
        self.under_way: deque[tuple[_Page, Future[Encoded] | None]] = deque()

    def run(self) -> _Done:
        tops = {shard: top for shard, top in self.store.tops().items() if not self.ledger.is_at(shard, top)}
        if self.first:
            above = self.ledger.position
            self.progress.expect(
                sum(
                    self.store.count_changes(shard, above=above(shard, top), upto=top.seq_no)
                    for shard, top in tops.items()
                )
            )
        self.done.moved = bool(tops)
        pool = ThreadPoolExecutor(2, thread_name_prefix="page")
        try:
            for shard, top in tops.items():
                self._shard(pool, shard, top)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return self.done

    def _shard(self, pool: ThreadPoolExecutor, shard: int, top: ShardPosition) -> None:
        above = self.ledger.position(shard, top)
        for hits in self.store.changes(self.model, shard, CHUNK_DOCUMENTS, above=above, upto=top.seq_no):
            page = self._judged(shard, replace(top, seq_no=hits[-1]["_seq_no"]), hits)
            encoding = pool.submit(self.encoder.encode_documents, page.todo) if page.todo else None
            self.under_way.append((page, encoding))
            while len(self.under_way) > _IN_FLIGHT:
                self._end()
        while self.under_way:
            self._end()
        self.ledger.advance(shard, top, [], [])

    def _judged(self, shard: int, upto: ShardPosition, hits: Sequence[Mapping[str, Any]]) -> _Page:
        page = _Page(shard, upto, [hit["_id"] for hit in hits])
        held = self.store.held(self.model, hits)
        for hit in hits:
            stamp = held.get(hit["_id"])
            reading = self._read(hit, stamp)
            if isinstance(reading, Refusal):
                page.notes.append(Note(REFUSED, reading.where, reading.doc_id, reading.reason))
                if not self._is_untouchable(hit):
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
        if self._is_untouchable(hit):
            reason = (
                "its version is its owner's, whose next write an update would let the server refuse: see --companion"
            )
            return Refusal(doc_id, reason, doc_id)
        made = self.store.users.document(doc_id, hit["_source"], assumed=stamp.lang if stamp else "")
        if stamp and isinstance(made, Document) and made.text_hash != stamp.text_hash:
            return self.store.users.document(doc_id, hit["_source"])  # another text: its language may be another too
        return made

    def _is_untouchable(self, hit: Mapping[str, Any]) -> bool:
        """Whether any update of a document would harm its owner, also one that takes our field away."""
        return not self.store.users.attachment.companion and entry_checks.is_external(hit)

    def _end(self) -> None:
        page, encoding = self.under_way.popleft()
        stored = 0
        if encoding is not None:
            stored = self._put(page, encoding.result())
        updated = self.store.keep_fields(page.fields_only) if page.fields_only else 0
        removed = self.store.forget(page.to_forget) if page.to_forget else 0
        unchanged = page.unchanged if self.first else 0
        self.ledger.advance(page.shard, page.upto, page.doc_ids, page.notes, encoded=stored, unchanged=unchanged)
        self.done.add(_Done(stored, unchanged, removed, updated))
        if self.first:
            self.progress(len(page.doc_ids))

    def _put(self, page: _Page, encoded: Encoded) -> int:
        """Attach what was encoded; a document that has changed since waits for the next pass."""
        known = [bool(encoded.known[at].any()) for at in range(len(page.todo))]
        items = [StoredDocument.of(document, encoded, at) for at, document in enumerate(page.todo) if known[at]]
        report = self.store.put(self.model, items)
        reasons = {one.doc_id: NOTHING_KNOWN for one, is_known in zip(page.todo, known, strict=True) if not is_known}
        reasons |= report.refused
        page.notes += [Note(REFUSED, doc_id, doc_id, reason) for doc_id, reason in reasons.items()]
        page.to_forget += reasons
        return report.stored
