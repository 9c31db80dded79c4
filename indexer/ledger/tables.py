"""Tables of the ledger: index runs, chunks, spooled documents, findings, ids that a run met, and attached indices."""

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.ledger.database import Base

RUNNING, DONE, ABANDONED = "running", "done", "abandoned"

READING, PAUSED, CANCELLED = "reading", "paused", "cancelled"
"""States that only a run for workers has: its sources are being read; it is paused; it was cancelled."""

ACTIVE = (READING, RUNNING, PAUSED)
"""States of a run that is not over."""

PENDING, LEASED, SPLIT = "pending", "leased", "split"
"""States of a chunk, with ``DONE``: a worker may take it; a worker has it; it was replaced by its two halves."""

OF_COLLECTION = "collection:"
"""Prefix of the source of a run that encodes a collection's own documents again."""


class IndexRun(Base):
    """A run over sources, or over a collection's own documents, from beginning to end; interruptions do not end it."""

    __tablename__ = "index_runs"

    id: Mapped[int] = mapped_column(primary_key=True)
    collection: Mapped[str] = mapped_column(index=True)
    sources: Mapped[list[str]] = mapped_column(sa.JSON)
    fingerprint: Mapped[str]
    model: Mapped[str]
    build: Mapped[str]
    state: Mapped[str]
    started: Mapped[dt.datetime]
    finished: Mapped[dt.datetime | None]
    encoded: Mapped[int] = mapped_column(default=0)
    unchanged: Mapped[int] = mapped_column(default=0)
    pruned: Mapped[int] = mapped_column(default=0)
    generation: Mapped[int] = mapped_column(default=1)
    prune: Mapped[bool] = mapped_column(default=False)
    encoding: Mapped[str] = mapped_column(default="")
    """What was said of the encoding of the sources."""
    spooled: Mapped[bool] = mapped_column(default=False)
    """Whether the documents are spooled for workers."""
    swept: Mapped[float] = mapped_column(default=0.0)
    """When a worker last looked for lost chunks, in seconds by the database's clock."""
    builds: Mapped[dict[str, int] | None] = mapped_column(sa.JSON(none_as_null=True))
    """If workers encoded: number of documents that each build encoded."""
    again: Mapped[dict[str, str] | None] = mapped_column(sa.JSON(none_as_null=True))
    """If workers encode the collection's own documents again: the ``encoder`` and its ``method``."""


class Chunk(Base):
    """Documents of a run that are planned, stored and marked done together; a planned chunk keeps its documents."""

    __tablename__ = "chunks"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    documents: Mapped[int]
    todo: Mapped[bytes]
    """A flag for each document: encode it; false if it was stored unchanged when the chunk was planned."""
    digest: Mapped[str]
    """Hash of the documents' ids and texts: a run is not resumed if its source gives other documents."""
    updated: Mapped[dt.datetime]
    wanted: Mapped[int] = mapped_column(default=0)
    """Number of documents to encode, the true flags of ``todo``; once it is done, number that a worker stored."""
    owner: Mapped[str | None]
    """The worker that has the chunk, or had it last."""
    until: Mapped[float] = mapped_column(default=0.0)
    """End of the lease, in seconds by the database's clock."""
    attempts: Mapped[int] = mapped_column(default=0)
    build: Mapped[str | None]
    error: Mapped[str] = mapped_column(default="")


class Spool(Base):
    """A chunk's documents, compressed, for workers; deleted with the chunks."""

    __tablename__ = "spools"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    documents: Mapped[bytes]


class FindingRow(Base):
    """A refused record, or a remark for the owner of the sources."""

    __tablename__ = "findings"

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str]
    place: Mapped[str]
    doc_id: Mapped[str]
    text: Mapped[str]


class SeenDocument(Base):
    """Ids met in a run, as 63 bits of a hash, to prune; deleted when the run is done."""

    __tablename__ = "seen_documents"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    chunk: Mapped[int] = mapped_column(default=0)
    """Always 0; an earlier version needed the number of a chunk."""


class AttachedIndex(Base):
    """An index into which vectors of a collection were put, by its own name: an alias may point elsewhere by now."""

    __tablename__ = "attached_indices"

    collection: Mapped[str] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]


REFUSED, REMARK = "refused", "remark"
