"""Tables of the ledger: index runs, their chunks, the documents on their way, what was refused, what was seen."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.ledger.database import Base

RUNNING, DONE, ABANDONED = "running", "done", "abandoned"

READING, PAUSED, CANCELLED = "reading", "paused", "cancelled"
"""States that only a run for workers has: its sources are being read; it rests; it was given up."""

ACTIVE = (READING, RUNNING, PAUSED)
"""A run for workers in one of these is not over."""

PENDING, LEASED, SPLIT = "pending", "leased", "split"
"""States of a chunk, with ``DONE``: the first two are a worker's to take and taken; a split one lives in its halves."""

OF_COLLECTION = "collection:"
"""What the source of a run begins with that encodes a collection's own documents again."""


class IndexRun(Base):
    """One ``dragoman index``: a source read from beginning to end, however often it was interrupted."""

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
    spooled: Mapped[bool] = mapped_column(default=False)
    """Whether its documents are kept for workers."""
    swept: Mapped[float] = mapped_column(default=0.0)
    """When a worker last looked for what got lost, in seconds by the database's clock."""
    builds: Mapped[dict[str, int] | None] = mapped_column(sa.JSON(none_as_null=True))
    """Documents that each build encoded, where workers did it."""
    again: Mapped[dict[str, str] | None] = mapped_column(sa.JSON(none_as_null=True))
    """Where workers encode the collection's own documents again: the ``encoder`` and its ``method``."""


class Chunk(Base):
    """Documents that are read, encoded and put together: their boundaries never move once they are here."""

    __tablename__ = "chunks"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    documents: Mapped[int]
    todo: Mapped[bytes]
    """A flag a document: encode it, or it was stored unchanged when the chunk was first seen."""
    digest: Mapped[str]
    """Of the documents' ids and texts: a source that gives others when it is read again is not gone on with."""
    updated: Mapped[dt.datetime]
    wanted: Mapped[int] = mapped_column(default=0)
    """How many of its documents are to be encoded, the flags of ``todo``; once it is done, how many a worker stored."""
    owner: Mapped[str | None]
    """The worker that has it, or the last that had it."""
    until: Mapped[float] = mapped_column(default=0.0)
    """End of the lease, in seconds by the database's clock: nobody else's is asked."""
    attempts: Mapped[int] = mapped_column(default=0)
    build: Mapped[str | None]
    error: Mapped[str] = mapped_column(default="")


class Spool(Base):
    """A chunk's documents, compressed, where workers find them; removed with the chunks."""

    __tablename__ = "spools"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    documents: Mapped[bytes]


class Finding(Base):
    """A record that was refused, or something its owner should know."""

    __tablename__ = "findings"

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str]
    place: Mapped[str]
    doc_id: Mapped[str]
    text: Mapped[str]


class SeenDocument(Base):
    """Ids met in a run, as 63 bits of a hash: for duplicates and for pruning; emptied when the run is done."""

    __tablename__ = "seen_documents"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    chunk: Mapped[int] = mapped_column(default=0)
    """Number of the chunk that has the document that counts."""


REFUSED, REMARK = "refused", "remark"
