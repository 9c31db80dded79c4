"""The ledger of an index run: what was read, what is done, what was refused, by this process or by workers."""

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.document import Document, short_hash
from encoders.errors import BadInput, StoreError
from indexer.ledger.database import now, transaction
from indexer.ledger.findings import Finding, forget_findings
from indexer.ledger.index_runs import RunLedger, builds, change_state, forget_chunks, refuse_if_at_work, runs
from indexer.ledger.tables import (
    ABANDONED,
    ACTIVE,
    DONE,
    PENDING,
    READING,
    RUNNING,
    Chunk,
    IndexRun,
    SeenDocument,
    Spool,
)

PAGE = 500
"""Ids in one statement."""


@dataclass(frozen=True)
class ReadChunk:
    """A chunk as it was read: its documents, what was refused or remarked, and the number of records read."""

    number: int
    documents: list[Document]
    findings: list[Finding]
    records: int

    @property
    def doc_ids(self) -> list[str]:
        """Ids of the documents, in their order."""
        return [document.doc_id for document in self.documents]

    @property
    def digest(self) -> str:
        """Hash of the ids and texts: a run is not resumed if its source now gives other documents."""
        return short_hash(*(part for document in self.documents for part in (document.doc_id, document.text_hash)))


class Ledger(RunLedger):
    """The ledger of one index run."""

    @classmethod
    def open(
        cls,
        engine: sa.Engine,
        collection: str,
        sources: Sequence[str],
        fingerprint: str,
        model: str,
        build: str,
        *,
        spooled: bool = False,
        generation: int = 1,
        prune: bool = False,
        encoding: str = "",
        again: Mapping[str, str] | None = None,
    ) -> "Ledger":
        """Resume the collection's unfinished run over the same unchanged sources, or begin a run.

        Other unfinished runs are abandoned, but their stored documents stay and are not encoded again. Raises BadInput:
        workers work on a run that this call can't resume: it has other sources or another model, or was begun without
        pruning, or this call is to work in one process.
        """
        with transaction(engine) as session:
            query = sa.select(IndexRun).where(IndexRun.collection == collection, IndexRun.state.in_(ACTIVE))
            for run in session.scalars(query):
                same = (run.fingerprint, run.model, run.spooled) == (fingerprint, model, spooled)
                if same and (spooled or run.build == build):  # workers may run another build
                    _add_pruning(run, prune=prune)
                    return cls(engine, run, resumed=True)
                refuse_if_at_work(run)
                run.state = ABANDONED
                forget_chunks(session, run.id)
            run = IndexRun(
                collection=collection,
                sources=list(sources),
                fingerprint=fingerprint,
                model=model,
                build=build,
                state=READING if spooled else RUNNING,
                started=now(),
                spooled=spooled,
                generation=generation,
                prune=prune,
                encoding=encoding,
                again=dict(again) if again else None,
            )
            session.add(run)
            session.flush()
        return cls(engine, run)

    def recall(self, read_chunk: ReadChunk) -> Chunk | None:
        """The chunk as planned earlier, or None. Raises StoreError: its documents differ; the run is abandoned."""
        with transaction(self._engine) as session:
            chunk = session.get(Chunk, (self.run.id, read_chunk.number))
        if chunk is not None and chunk.digest != read_chunk.digest:
            self.abandon()
            raise StoreError(
                f"run {self.run.id} can't go on: its sources give other chunks than when it began; "
                "give the same command again, and a new run begins"
            )
        return chunk

    def plan(self, read_chunk: ReadChunk, todo: Sequence[bool], *, spool: bytes | None = None) -> Chunk:
        """Write down a chunk before any work on it: which documents to encode, and which records were refused.

        ``todo`` is a flag a document; ``spool`` has the documents, for workers. Raises BadInput: the run was cancelled.
        """
        number = read_chunk.number
        with transaction(self._engine) as session:
            self._still_planning(session)
            # Documents that a finding names are in the sources, and must not be pruned.
            doc_ids = [*read_chunk.doc_ids, *(finding.doc_id for finding in read_chunk.findings if finding.doc_id)]
            new = set(map(id_key, doc_ids)) - self._seen_keys(session, doc_ids)
            chunk = Chunk(
                run_id=self.run.id,
                number=number,
                state=PENDING,
                documents=len(todo),
                todo=bytes(todo),
                wanted=sum(todo),
                digest=read_chunk.digest,
                updated=now(),
            )
            session.add(chunk)
            if spool is not None:
                session.add(Spool(run_id=self.run.id, number=number, documents=spool))
            session.add_all(SeenDocument(run_id=self.run.id, key=key) for key in new)
            session.add_all(finding.row(self.run.id) for finding in read_chunk.findings)
        return chunk

    def start_workers(self) -> None:
        """Let workers begin; chunks with nothing to encode are done. Raises BadInput: the run was cancelled."""
        with transaction(self._engine) as session:
            run = self._still_planning(session)
            session.execute(sa.update(Chunk).where(Chunk.run_id == self.run.id, Chunk.wanted == 0).values(state=DONE))
            query = sa.select(sa.func.coalesce(sa.func.sum(Chunk.documents - Chunk.wanted), 0))
            run.unchanged = session.scalar(query.where(Chunk.run_id == self.run.id)) or 0
            session.flush()
            change_state(session, run.id, (READING,), RUNNING)
            session.refresh(run)
        self.run = run

    def _still_planning(self, session: Session) -> IndexRun:
        """The run, locked until the transaction ends. Raises BadInput: the run was cancelled or removed meanwhile."""
        state = READING if self.run.spooled else RUNNING
        planning = change_state(session, self.run.id, (state,), state)
        run = session.get(IndexRun, self.run.id)
        if run is None or not planning:
            activity = "its documents were handed out" if self.run.again else "its sources were read"
            raise BadInput(
                f"run {self.run.id} of collection {self.run.collection} was {run.state if run else 'removed'} while "
                f"{activity}; stored documents stay"
            )
        return run

    def _seen_keys(self, session: Session, doc_ids: Sequence[str]) -> set[int]:
        """Keys of the ids that the run met already."""
        seen = SeenDocument.run_id == self.run.id, SeenDocument.key.in_(map(id_key, doc_ids))
        return set(session.scalars(sa.select(SeenDocument.key).where(*seen)))

    def done(self, chunk: Chunk, stored: int, refused: Iterable[Finding]) -> None:
        """Mark a chunk as done after its documents are in the store: ``stored`` of them were encoded and stored."""
        with transaction(self._engine) as session:
            session.merge(chunk).state = DONE
            session.add_all(finding.row(self.run.id) for finding in refused)
            run = session.get_one(IndexRun, self.run.id)
            run.encoded += stored
            run.unchanged += chunk.documents - sum(chunk.todo)
        self.run = run

    def abandon(self) -> None:
        """Abandon the run; the documents that it stored stay."""
        with transaction(self._engine) as session:
            session.get_one(IndexRun, self.run.id).state = ABANDONED
            forget_chunks(session, self.run.id)

    def unseen(self, doc_ids: Iterable[str]) -> list[str]:
        """The ids that this run did not meet; none if the run is over, because its list of ids is deleted then."""
        with transaction(self._engine) as session:
            missing = self._missing(session, doc_ids)
            state = session.scalar(sa.select(IndexRun.state).where(IndexRun.id == self.run.id))
        return missing if state == RUNNING else []

    def _missing(self, session: Session, doc_ids: Iterable[str]) -> list[str]:
        """The ids that this run did not meet; they are looked up in pages."""
        missing: list[str] = []
        rest = iter(doc_ids)
        while page := list(itertools.islice(rest, PAGE)):
            seen = self._seen_keys(session, page)
            missing += [doc_id for doc_id in page if id_key(doc_id) not in seen]
        return missing

    def finish(self, pruned: int) -> None:
        """Mark the run as done, with the number of pruned documents; a run that is over stays as it is."""
        with transaction(self._engine) as session:
            if not change_state(session, self.run.id, (RUNNING,), DONE):
                return
            run = session.get_one(IndexRun, self.run.id)
            run.finished, run.pruned = now(), pruned
            if run.spooled:
                run.builds = builds(session, run.id)
            forget_findings(session, run, lambda doc_ids: set(doc_ids) - set(self._missing(session, doc_ids)))
            forget_chunks(session, run.id)
        self.run = run

    def earlier(self) -> list[IndexRun]:
        """The collection's other runs."""
        return [run for run in runs(self._engine, self.run.collection) if run.id != self.run.id]


def _add_pruning(run: IndexRun, *, prune: bool) -> None:
    """Add pruning to a resumed run. Raises BadInput: workers have begun to work on the run."""
    if prune and not run.prune and run.spooled and run.state != READING:
        raise BadInput(
            f"workers are at run {run.id} of collection {run.collection}, which was begun without --prune; "
            "give the same command again when it is done"
        )
    run.prune = run.prune or prune


def id_key(doc_id: str) -> int:
    """63 bits of a hash of an id."""
    digest = hashlib.blake2b(doc_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
