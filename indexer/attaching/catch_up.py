"""Catch up with what the owner of an attached index writes: only documents whose text changed are encoded.

A pass reads the changes since the previous pass, by shard and sequence number, and encodes documents without the vector
of their text. Our own writes are changes too, so passes are repeated until a pass has nothing to write.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from encoders.console import QUIET, Console, Progress
from encoders.document import Document, Encoded, Encoder
from encoders.errors import BadInput, DragomanError
from indexer.cluster.cluster_errors import NotAllowed
from indexer.cluster.index_changes import ShardPosition
from indexer.indexing.encoding_queue import EncodingQueue
from indexer.indexing.pipeline import RunReport
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.indexing.storing import put_encoded
from indexer.ledger import attach_ledger
from indexer.ledger.attach_ledger import AttachLedger
from indexer.ledger.findings import Finding
from indexer.ledger.tables import REFUSED
from indexer.readers.records.source import Refusal
from indexer.stores.attached import attach_checks
from indexer.stores.attached.joined_store import JoinedStore
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.contract import Stamp

_PASSES = 5
"""Maximum passes of one call, however fast the owner writes."""


@dataclass(frozen=True)
class AttachReport(RunReport):
    """What one call of ``catch_up`` did; ``refused`` is every document without a vector."""

    removed: int  # documents whose vectors were removed, because they can't be encoded any more or were deleted
    behind: bool  # whether the owner writes faster than passes are made
    languages: Mapping[str, int]  # number of searchable documents by language
    unfit: Sequence[str] = ()  # why indices of a family were left out


def catch_up(
    store: JoinedStore,
    encoder: Encoder,
    engine: sa.Engine,
    collection: str,
    *,
    checkpoints: Path | None = None,
    console: Console = QUIET,
    check: Callable[[UsersIndex], None] = lambda _: None,
    lock: Callable[[], None] = lambda: None,
) -> AttachReport:
    """Make passes over a user's index, or each index of a family, until every document has the vector of its text.

    ``checkpoints`` keeps what is encoded of very long documents until they are stored; ``check`` may refuse an index
    that is new, and ``lock`` every write. Raises BadInput: no index can be attached to; StoreError: server or database
    failed; call it again.
    """
    started = time.monotonic()
    unfit: list[DragomanError] = list(store.users.unfit)
    marked = {part.mark: part for part in store.parts()}
    kept = store.kept(attach_ledger.remembered(engine, collection))
    away = kept.keys() - marked.keys()
    all_passes: list[_Passes] = []
    for mark, part in marked.items():
        try:
            if not AttachLedger.knows(engine, collection, mark, encoder.spec.model):
                part.check(encoder.spec.model)
                check(part.users)
        except (BadInput, NotAllowed) as error:
            unfit.append(error)
            continue
        attach_ledger.remember(engine, collection, part.users.uuid, part.users.name)
        part.create(encoder.spec.model, encoder.spec.dim)
        source = f"elastic:{part.address.server}/{part.users.attachment.index}"
        ledger = AttachLedger.open(engine, collection, source, mark, encoder.spec, beside=marked.keys(), away=away)
        with console.progress("attaching", None, "documents") as progress:
            passes = _Passes(part, encoder, ledger, checkpoints, console, progress, lock)
            passes.behind = all(passes.run(first=number == 0) for number in range(_PASSES))
            all_passes.append(passes)
    if not all_passes:
        raise unfit[0]
    pruned = _prune(store, all_passes, kept.values())
    store.publish()
    for passes in all_passes:
        passes.ledger.finish()
    if checkpoints and not any(passes.behind for passes in all_passes):
        shutil.rmtree(checkpoints, ignore_errors=True)  # those of documents that changed before they were stored
    counts = [passes.store.users.index.retry_while_away(passes.store.count) for passes in all_passes]
    return AttachReport(
        run=all_passes[0].ledger.run.id,
        resumed=any(passes.ledger.resumed for passes in all_passes),
        encoded=sum(passes.encoded for passes in all_passes),
        unchanged=sum(passes.unchanged for passes in all_passes),
        removed=sum(passes.removed for passes in all_passes) + pruned,
        refused=[refusal for passes in all_passes for refusal in passes.ledger.refusals()],
        behind=any(passes.behind for passes in all_passes),
        languages=dict(sorted(sum(map(Counter, counts), Counter[str]()).items())),
        unfit=list(map(str, unfit)),
        seconds=time.monotonic() - started,
    )


def _prune(store: JoinedStore, all_passes: "Sequence[_Passes]", kept: Collection[str]) -> int:
    """Remove and count what is stored for deleted documents, but of no ``kept`` index that can't be read this time."""
    changed = any(passes.moved or passes.ledger.interrupted for passes in all_passes)
    if not (changed or store.users.attachment.family):
        return 0
    without = 0
    for passes in all_passes:
        refused = [refusal.doc_id for refusal in passes.ledger.refusals()]
        missing = sorted(passes.store.gone(refused))
        without += len(refused) - len(missing)
        if missing:
            passes.ledger.record_deletions(missing, 0)
    names = [passes.store.users.name for passes in all_passes]
    pruned = store.prune(without, store.users.within(names), set(kept).difference(names))
    if pruned:
        all_passes[0].ledger.record_deletions([], pruned)
    return pruned


@dataclass
class _Page:
    """Changed documents of a shard, sorted by what has to be done with them."""

    shard: int
    upto: ShardPosition
    doc_ids: list[str]
    todo: list[Document] = field(default_factory=list)
    fields_only: list[Document] = field(default_factory=list)
    unchanged: int = 0
    refused: list[Finding] = field(default_factory=list)
    to_forget: list[str] = field(default_factory=list)


@dataclass
class _Passes:
    """Passes over the changes, with the numbers of documents that they encoded, left unchanged and removed."""

    store: JoinedStore
    encoder: Encoder
    ledger: AttachLedger
    checkpoints: Path | None
    console: Console
    progress: Progress
    lock: Callable[[], None]  # to be called before a write: the lock may be lost, and another process at work
    encoded: int = 0
    unchanged: int = 0
    removed: int = 0
    moved: bool = False
    first: bool = False
    wrote: bool = False
    behind: bool = True

    def run(self, *, first: bool) -> bool:
        """Make a pass; returns whether another pass may have work. Only the first pass shows progress."""
        self.first, self.wrote = first, False
        tops = {shard: top for shard, top in self.store.last_writes().items() if not self.ledger.is_at(shard, top)}
        if self.first:
            position = self.ledger.position
            self.progress.expect(
                sum(
                    self.store.count_changes(shard, above=position(shard, top), upto=top.seq_no)
                    for shard, top in tops.items()
                )
            )
        self.moved |= bool(tops)
        with EncodingQueue(self.encoder, self._finish, self.console, self.checkpoints) as queue:
            for shard, top in tops.items():
                self._read_shard(queue, shard, top)
        return self.wrote

    def _read_shard(self, queue: EncodingQueue[_Page], shard: int, top: ShardPosition) -> None:
        model, position = self.encoder.spec.model, self.ledger.position(shard, top)
        for hits in self.store.changes(model, shard, CHUNK_DOCUMENTS, above=position, upto=top.seq_no):
            page = self._sorted_page(shard, replace(top, seq_no=hits[-1]["_seq_no"]), hits)
            queue.add(page, page.todo)
        queue.finish_all()
        self.ledger.advance(shard, top, [], [])

    def _sorted_page(self, shard: int, upto: ShardPosition, hits: Sequence[Mapping[str, Any]]) -> _Page:
        page = _Page(shard, upto, [hit["_id"] for hit in hits])
        stamps = self.store.held(self.encoder.spec.model, hits)
        for hit in hits:
            stamp = stamps.get(hit["_id"])
            reading = self._read(hit, stamp)
            if isinstance(reading, Refusal):
                page.refused.append(Finding(REFUSED, reading.place, reading.doc_id, reading.text))
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
                "its owner numbers its versions (external versioning), so after an update of ours the server might "
                "refuse the owner's next write; attach with --companion"
            )
            return Refusal(doc_id, reason, doc_id)
        reading = self.store.users.document(doc_id, hit["_source"], assumed=stamp.lang if stamp else "")
        if stamp and isinstance(reading, Document) and reading.text_hash != stamp.text_hash:
            return self.store.users.document(doc_id, hit["_source"])  # the text changed: its language may have, too
        return reading

    def _must_not_update(self, hit: Mapping[str, Any]) -> bool:
        """Whether any update of a document would harm its owner, even one that removes our field."""
        return not self.store.users.attachment.companion and attach_checks.is_external(hit)

    def _finish(self, page: _Page, encoded: Encoded | None) -> None:
        self.lock()
        stored = changed = 0
        if encoded is not None:
            outcome = put_encoded(self.store, self.encoder.spec.model, page.todo, encoded)
            stored = outcome.stored
            changed = len(page.todo) - stored - len(outcome.refused)  # during the encoding: left to the next pass
            page.refused += outcome.refused
            page.to_forget += [refusal.doc_id for refusal in outcome.refused]
        updated = self.store.keep_fields(page.fields_only) if page.fields_only else 0
        removed = self.store.forget(page.to_forget) if page.to_forget else 0
        unchanged = page.unchanged if self.first else 0
        self.ledger.advance(page.shard, page.upto, page.doc_ids, page.refused, encoded=stored, unchanged=unchanged)
        self.encoded += stored
        self.unchanged += unchanged
        self.removed += removed
        self.wrote |= bool(stored or changed or removed or updated)
        if self.first:
            self.progress(len(page.doc_ids))
